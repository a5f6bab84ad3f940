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


class Server:
    """PostgreSQL in a folder of its own, run as the postgres user, since it refuses root."""

    def __init__(self, folder):
        self.folder, self.programs, self.as_user = folder, _programs(), []
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                _missing("there is no postgres user to run PostgreSQL as")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.as_user = ["runuser", "-u", "postgres", "--"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self):
        return self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")

    def start(self):
        settings = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        return self._run("pg_ctl", "-l", self.folder / "server.log", "-w", "-o", settings, "start")

    def stop(self):
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def _run(self, program, *arguments):
        log = self.folder / "command.log"  # a pipe would be kept open by the server
        command = [*self.as_user, self.programs / program, "-D", self.folder / "data", *arguments]
        with log.open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=output, cwd=self.folder, check=False)
        return log.read_text(errors="replace").strip()[-300:] if done.returncode else None


@pytest.fixture(scope="session")
def server():
    """A new, empty PostgreSQL server that ends with the tests."""
    if not REQUIRED:
        pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="fedbench-pg-"))
    made = Server(folder)
    try:
        if failure := made.create() or made.start():
            _missing(f"PostgreSQL does not start here: {failure}")
        yield made
    finally:
        if (folder / "data").exists():
            made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sweeps.db"
    return new_database(request)


@pytest.fixture
def on_server(request):
    """The URL of an empty database on the PostgreSQL server."""
    return new_database(request)


def new_database(request):
    url = request.getfixturevalue("server").url
    import psycopg

    name = f"test_{os.getpid()}_{abs(hash(request.node.nodeid)) % 10**9}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"
