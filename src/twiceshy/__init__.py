"""twiceshy replays catalogued failures of LLM agents against a candidate version, frozen and graded."""

from twiceshy.boundary import Blocked, Boundary
from twiceshy.candidates import candidate

__all__ = ["Blocked", "Boundary", "candidate"]
