"""How alike two networks represent the same stimuli, layer by layer (fed2a.py has the method)."""

from __future__ import annotations

import torch
from torch import Tensor


def rdm(outputs: Tensor, distance: str) -> Tensor:
    """Eqs. (6)-(9): [..., m, d] -> [..., m, m] pairwise distances, in float64; a zero vector is at cosine 0 to all."""
    v = outputs.double()
    if distance == "euclidean":
        return torch.cdist(v, v, compute_mode="donot_use_mm_for_euclid_dist")  # Eq. (9)
    if distance == "correlation":
        v = v - v.mean(-1, keepdim=True)  # Eq. (7)
    v = torch.nn.functional.normalize(v, dim=-1, eps=1e-300)
    return 1 - v @ v.mT  # Eq. (8)


def consistency(rdm_a: Tensor, rdm_b: Tensor) -> Tensor:
    """Eq. (10): squared correlation of the upper triangles, [..., m, m] -> [...]; 0 where one is constant."""
    i, j = torch.triu_indices(rdm_a.shape[-1], rdm_a.shape[-1], 1, device=rdm_a.device)
    a, b = rdm_a[..., i, j], rdm_b[..., i, j]
    flat = [u.amax(-1) - u.amin(-1) <= 1e-12 * u.abs().amax(-1).clamp(min=1) for u in (a, b)]  # but for rounding
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    rho = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))
    return torch.where(flat[0] | flat[1], torch.zeros_like(rho), rho**2)
