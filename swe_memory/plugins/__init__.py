"""Ways in for agents: one module each, and the only places where a framework for agents may be spoken to."""
