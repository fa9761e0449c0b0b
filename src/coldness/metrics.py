def source_key(name: str, source: int) -> str:
    return f"{name}_{source}" if source else name
