"""twiceshy replays catalogued failures of LLM agents against a candidate version, frozen and graded."""
