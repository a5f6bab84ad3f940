"""Databases for sweeps: a SQLite file, and a PostgreSQL server of the test's own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

REQUIRED = os.environ.get("FEDBENCH_POSTGRESQL") == "required"  # as in .ci/run


def _missing(reason):
    if REQUIRED:
        pytest.fail(f"{reason}, and FEDBENCH_POSTGRESQL=required")
    pytest.skip(reason)


def _programs():
    """The folder of initdb and pg_ctl; installed from Debian's packages where they have to be there."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and REQUIRED and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "postgresql"], check=True, capture_output=True)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        _missing("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return found[-1].parent


@pytest.fixture(scope="session")
def postgresql():
    """The address of a new, empty server that runs as the postgres user, and ends with the tests."""
    if not REQUIRED:
        pytest.importorskip("psycopg")
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="fedbench-pg-"))
    as_user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            _missing("there is no postgres user to run PostgreSQL as")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command):
        log = folder / "command.log"  # a pipe would be kept open by the server
        with log.open("wb") as output:
            done = subprocess.run([*as_user, *command], stdout=output, stderr=output, cwd=folder, check=False)
        return done.returncode, log.read_text(errors="replace")

    data = folder / "data"
    try:
        code, text = run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        if code == 0:
            code, text = run(
                programs / "pg_ctl", "-D", data, "-l", folder / "server.log", "-w", "-o", settings, "start"
            )
        if code:
            _missing(f"PostgreSQL does not start here: {text.strip()[-300:]}")
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        if data.exists():
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sweeps.db"
    url = request.getfixturevalue("postgresql")
    import psycopg

    name = f"test_{os.getpid()}_{abs(hash(request.node.nodeid)) % 10**9}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"
