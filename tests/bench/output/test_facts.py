"""What a run ran on."""

from bench.output import facts


def test_git_revision_is_of_this_checkout_or_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(facts, "ROOT", tmp_path)
    assert facts.git_revision() is None and not facts.git_history()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]

    def call(*words):
        assert facts.subprocess.run([*git, *words], capture_output=True).returncode == 0

    call("init")
    assert facts.git_revision() is None
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "notes.txt").write_text("not code")
    call("add", "a.py")
    call("commit", "-m", "x")
    revision = facts.git_revision()
    assert len(revision) == 40
    for name in ("smoke/run/config.yaml", "bench/conf.yaml"):
        assert facts.git_revision() == revision  # a run's folder is no code
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("algo: {}")
    assert facts.git_revision() == f"{revision}-dirty"
    (tmp_path / "bench/conf.yaml").unlink()
    assert facts.git_revision() == revision
    (tmp_path / "b.c").write_text("new code")
    assert facts.git_revision() == f"{revision}-dirty"
    call("add", "b.c")
    call("commit", "-m", "y")
    assert facts.git_history() == {revision, facts.git_revision()}
    inner = tmp_path / "venv"  # installed somewhere below another project's checkout
    inner.mkdir()
    monkeypatch.setattr(facts, "ROOT", inner)
    assert facts.git_revision() is None
