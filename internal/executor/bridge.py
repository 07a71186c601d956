"""One place of Harbor, driven by JSON lines on standard input and answered by JSON lines on standard output.

The first line out says who speaks. Every request then has an id and gets one line with it; requests run at the same time.
The end of the input deletes the place and ends this process, whatever else is going on. Harbor and the libraries of its
vendors print where they like, so the real standard output is put aside before they are imported.
"""

import os
import sys

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

import asyncio
import hashlib
import importlib.metadata
import json
import resource
import signal
from pathlib import Path

PROTO = 1
MOST_WRITTEN = 2 << 30  # bytes of a file that this process and those it starts may write
MOST_OUTPUT = 1 << 20  # characters of a command's output in an answer
MOST_LINE = 64 << 20
SLOW_START = 120  # seconds that a place which is being made when the input ends has to become one that can be deleted


def say(answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def hello():
    try:
        harbor = importlib.metadata.version("harbor")
    except importlib.metadata.PackageNotFoundError:
        harbor = ""
    with open(__file__, "rb") as source:
        digest = hashlib.sha256(source.read()).hexdigest()
    python = "%d.%d" % sys.version_info[:2]
    return {"id": 0, "ok": True, "hello": {"proto": PROTO, "bridge": digest, "python": python, "harbor": harbor}}


def fault(error):
    """Says what went wrong, with a type of ours: a vendor's library may raise anything."""
    return {"type": type_of(error), "message": str(error)[:4096], "cause": type(error).__name__, "retry": is_passing(error)}


def type_of(error):
    if isinstance(error, SystemExit):
        return "credentials"
    if isinstance(error, ImportError):
        return "extra"
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, (ValueError, TypeError, NotImplementedError)):
        return "unsupported"
    return "place"


def is_passing(error):
    return isinstance(error, (ConnectionError, TimeoutError))


class Place:
    """The place of this process, once it was started."""

    def __init__(self):
        self.environment = None
        self.starting = None
        self.running = {}

    async def caps(self, request):
        """What the backend can hold a place to. It ends with SystemExit where there are no credentials."""
        from harbor.environments.factory import EnvironmentFactory
        from harbor.models.environment_type import EnvironmentType

        kind = EnvironmentType(request["backend"])
        await asyncio.to_thread(EnvironmentFactory.run_preflight, kind)
        caps = EnvironmentFactory.resource_capabilities(kind)
        return {"caps": caps.model_dump() if caps else {}}

    async def start(self, request):
        from harbor.environments.factory import EnvironmentFactory
        from harbor.models.environment_type import EnvironmentType
        from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
        from harbor.models.trial.paths import TrialPaths

        folder = Path(request["folder"])
        (folder / "environment").mkdir()
        self.environment = EnvironmentFactory.create_environment(
            type=EnvironmentType(request["backend"]),
            environment_dir=folder / "environment",
            environment_name="assay",
            session_id=request["session"],
            trial_paths=TrialPaths(folder / "trial"),
            task_env_config=EnvironmentConfig(
                docker_image=request["image"], cpus=request["cpus"], memory_mb=request["memory_mb"], workdir="/"
            ),
            cpu_enforcement_policy=request["cpu_mode"],
            memory_enforcement_policy=request["memory_mode"],
            network_policy=NetworkPolicy(network_mode=NetworkMode.PUBLIC),
            extra_docker_compose=request.get("compose") or [],
            auto_mounts=[],
        )
        self.starting = asyncio.ensure_future(self.environment.start(force_build=False))
        await asyncio.shield(self.starting)
        return {}

    async def exec(self, request):
        result = await self.environment.exec(request["command"], cwd="/", user="root")
        return {"code": result.return_code, "out": ((result.stdout or "") + (result.stderr or ""))[:MOST_OUTPUT]}

    async def put(self, request):
        await self.environment.upload_file(request["src"], request["dst"])
        return {}

    async def get(self, request):
        await self.environment.download_file(request["src"], request["dst"])
        return {}

    async def cancel(self, request):
        task = self.running.get(request["target"])
        if task:
            task.cancel()
        return {}

    async def stop(self, request):
        if self.starting:
            await asyncio.wait([self.starting], timeout=SLOW_START)
        environment, self.environment = self.environment, None
        if environment:
            await environment.stop(delete=True)
        return {}

    async def answer(self, request):
        try:
            if request["do"] not in ("caps", "start", "exec", "put", "get", "cancel", "stop"):
                raise ValueError("no request is called " + request["do"])
            say({"id": request["id"], "ok": True, **await getattr(self, request["do"])(request)})
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            say({"id": request["id"], "ok": False, "error": fault(error)})
        finally:
            del self.running[request["id"]]

    async def end(self):
        for task in list(self.running.values()):
            task.cancel()
        await asyncio.gather(*self.running.values(), return_exceptions=True)
        await self.stop({})


async def serve():
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=MOST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    loop.add_signal_handler(signal.SIGTERM, lines.feed_eof)
    place = Place()
    say(hello())
    try:
        while line := await lines.readline():
            request = json.loads(line)
            place.running[request["id"]] = asyncio.ensure_future(place.answer(request))
    finally:
        await place.end()


def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    try:
        asyncio.run(serve())
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)


main()
