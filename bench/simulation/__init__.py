"""The federation on its virtual clock: who trains when, what travels, what the server makes of it."""
