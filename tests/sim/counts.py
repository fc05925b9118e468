"""What happened in runs, counted."""


class Counts:
    """Numbers that add up; the attributes say of what."""

    def add(self, other: "Counts") -> None:
        """Add those of another run of the same simulation."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in vars(self).items())
