"""Runs the tools' commands in forks of one process that has imported JAX already.

A command costs a second of imports, and the tests have two thousand commands.  So ``lit.cfg.py``
starts this file as a server, and a tool's name in a RUN line stands for this file as a client.
The client sends its argv, directory, environment and its three standard streams; the server forks,
and the child takes them over and runs the tool's ``main``.  Every command still is a process of its
own, with its own JAX backend, streams and exit status; one whose environment sets JAX up in another
way, which JAX reads when it is imported, is run as a plain command.

``lit --param prefork=0`` runs plain commands instead.

    python prefork.py --serve FD            the server; FD is a listening socket
    python prefork.py SOCKET TOOL ARG...    the client
"""

from __future__ import annotations

# The client runs for every command, so it imports next to nothing: of sockets, what is in C.
import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

TOOLS = {
    "jaxmlir-opt": "jaxmlir.cli.opt",
    "jaxmlir-translate": "jaxmlir.cli.translate",
    "jaxmlir-run": "jaxmlir.cli.run",
    "FileCheck": "filecheck.main",
}
_LARGEST_REQUEST = 1 << 20


def client(path: str, words: list[str]) -> int:
    """Has the server run a command; its exit status, or 134 (an abort's) where it left none."""
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    request = "\0".join([os.getcwd(), str(len(words)), *words, *environment])
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, _LARGEST_REQUEST)
    connection.connect(path)
    connection.sendmsg(
        [request.encode(errors="surrogateescape")],
        [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)],
    )
    status = connection.recv(1)
    return status[0] if status else 134


def use(config: Any, parameters: Mapping[str, str]) -> None:
    """Makes the tools' names in the RUN lines stand for clients.

    Args:
      config: lit's configuration of the tests.
      parameters: what ``--param`` said.
    """
    if parameters.get("prefork") == "0":
        return
    if not _running:
        start(config.environment)
    path = _running[0]
    client = f"'{sys.executable}' -I -S '{os.path.abspath(__file__)}' {path}"
    clients = {f"-m {module.removesuffix('.main')}": tool for tool, module in TOOLS.items()}
    config.substitutions = [
        (pattern, next((f"{client} {t}" for end, t in clients.items() if c.endswith(end)), c))
        for pattern, c in config.substitutions
    ]


def start(environment: Mapping[str, str]) -> None:
    """Starts a server that ends when this process ends."""
    import socket
    import subprocess
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="jaxmlir-lit-")
    path = os.path.join(folder.name, "socket")
    # Commands that come while the server is still importing wait in the socket's queue.
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    server = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), "--serve", str(listening.fileno())],
        stdin=subprocess.PIPE,
        pass_fds=[listening.fileno()],
        # A process of one thread can be forked safely.
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},
    )
    _running.extend([path, server, folder])
    listening.close()


# The server's socket, its process and the socket's folder.  The server stops at the end of its
# stdin, so at the latest when this process is gone.
_running: list[Any] = []


def serve(listening: socket.socket) -> None:
    """Forks a child for each command until stdin ends."""
    import gc
    import select
    import signal

    _preload()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for the children.
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _run(connection)
        connection.close()


def _preload() -> None:
    """Imports what commands import, also on first use: the package and what it asks for so."""
    import importlib
    import pkgutil

    import jaxmlir

    package = pkgutil.walk_packages(jaxmlir.__path__, "jaxmlir.")
    modules = [module.name for module in package if not module.name.endswith(".__main__")]
    for name in (*modules, "jaxlib.mlir.dialects.builtin", "tomllib", *TOOLS.values()):
        importlib.import_module(name)


def _run(connection: socket.socket) -> None:
    """Runs the command of one connection in this process, and ends it."""
    import atexit
    import importlib
    import socket
    import subprocess

    message, streams, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
    folder, count, *rest = message.decode(errors="surrogateescape").split("\0")
    tool, *arguments = rest[: int(count)]
    os.chdir(folder)
    sys.path[0] = folder  # As for `python -m`.
    imported_with = _settings_of_jax()
    os.environ.clear()
    os.environ.update(pair.split("=", 1) for pair in rest[int(count) :])
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    # New ones: Python's own remember what kind of file the server had.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    sys.argv = [tool, *arguments]
    try:
        if _settings_of_jax() == imported_with:
            status = importlib.import_module(TOOLS[tool]).main()
        else:
            module = TOOLS[tool].removesuffix(".main")
            status = subprocess.run([sys.executable, "-m", module, *arguments]).returncode
    except SystemExit as e:
        status = e.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    connection.send(bytes([status or 0]))
    os._exit(0)


def _settings_of_jax() -> dict[str, str]:
    """What the environment says to JAX when it is imported."""
    return {name: value for name, value in os.environ.items() if name.startswith("JAX_")}


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        import socket

        serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        sys.exit(client(sys.argv[1], sys.argv[2:]))
