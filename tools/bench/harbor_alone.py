"""One place of Harbor by its own API, without Assay: made, one command, deleted.

    python harbor_alone.py IMAGE FOLDER    # prints one line of JSON: the seconds of each step

The import of Harbor is no part of it, since a job of Harbor imports once for all of its places.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Harbor and its libraries print where they like

from harbor.environments.factory import EnvironmentFactory
from harbor.models.environment_type import EnvironmentType
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths


async def main(image, folder):
    (folder / "environment").mkdir(parents=True)
    began = time.monotonic()
    place = EnvironmentFactory.create_environment(
        type=EnvironmentType.DOCKER,
        environment_dir=folder / "environment",
        environment_name="alone",
        session_id="assay-bench-%d" % os.getpid(),
        trial_paths=TrialPaths(folder / "trial"),
        task_env_config=EnvironmentConfig(docker_image=image, workdir="/"),
    )
    try:
        await place.start(force_build=False)
        started = time.monotonic()
        result = await place.exec("true")
        ran = time.monotonic()
    finally:
        await place.stop(delete=True)
    if result.return_code != 0:
        sys.exit("the command ended with %d: %s" % (result.return_code, result.stderr))
    ended = time.monotonic()
    answers.write(json.dumps({"start": started - began, "exec": ran - started, "delete": ended - ran}) + "\n")
    answers.flush()


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
