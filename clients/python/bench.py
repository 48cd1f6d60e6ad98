#!/usr/bin/env python3
"""What a command costs through a session, beside one that asyncio starts without a sandbox.

    PYTHONPATH=clients/python/src STOCKADE_PROGRAM=target/stockade python3 clients/python/bench.py [ROUNDS]

The two take turns, so that both have the same machine. It prints a JSON object: the medians in microseconds,
and their ratio.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time

import stockade

COMMAND = ["bash", "-c", "true"]


async def with_asyncio() -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    await process.communicate()
    assert process.returncode == 0


async def main(rounds: int) -> None:
    bare: list[float] = []
    through: list[float] = []
    with tempfile.TemporaryDirectory(prefix="stockade-bench-", dir="/var/tmp") as workspace:
        async with stockade.connect() as client, client.open(workspace) as session:
            for turn in range(rounds + 5):
                start = time.perf_counter()
                await with_asyncio()
                middle = time.perf_counter()
                result = await session.run(COMMAND)
                end = time.perf_counter()
                result.check()
                # The first turns warm everything up.
                if turn >= 5:
                    bare.append(middle - start)
                    through.append(end - middle)
    asyncio_us, client_us = (statistics.median(times) * 1e6 for times in (bare, through))
    print(json.dumps({"asyncio_us": asyncio_us, "client_us": client_us, "ratio": client_us / asyncio_us}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
