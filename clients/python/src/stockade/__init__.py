"""Run untrusted commands in a sandbox, and be asked before they may do more: the client of `stockade serve`.

>>> async with stockade.connect() as client:
...     async with client.open("/repo", on_question=handler) as session:
...         result = await session.run(["npm", "test"])
"""

from . import errors, types
from .client import Client, connect, default_socket
from .command import Chunk, Command
from .errors import *  # noqa: F403
from .events import Event, EventStream
from .question import Answer, Handler, Question
from .render import violation_line
from .result import Result
from .session import Session
from .text import safe, safe_line, shell_words
from .types import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Chunk",
    "Client",
    "Command",
    "Event",
    "EventStream",
    "Handler",
    "Question",
    "Result",
    "Session",
    "connect",
    "default_socket",
    "safe",
    "safe_line",
    "shell_words",
    "violation_line",
]
__all__ += errors.__all__
__all__ += types.__all__
