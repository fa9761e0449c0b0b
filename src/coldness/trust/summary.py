"""The answers of a verdict in a sentence or two."""

from __future__ import annotations

from coldness.trust.answers import Grade


def summary(short: Grade, long: Grade, density: Grade, ood: Grade, training: Grade) -> str:
    """Such as: A density you can use, not a generator: its energies ..., chains from noise ...

    The last two grades are mentioned only if they are a no.
    """
    faults = _faults(ood, training)
    if density == short == long == "not measured":
        return faults or "Nothing was measured."
    what = {"yes": "a density you can use", "partly": "a rough density"}.get(density)
    makes = {"yes": "a generator", "partly": "a rough generator"}.get(short)
    if makes is None and long == "yes":
        makes = "a generator with long chains"
    elif short == "not measured" and long == "partly":
        makes = "a rough generator with long chains"
    if density == "no":
        head = f"{makes}, not a density" if makes else "not a density"
        head = "neither a density nor a generator" if not makes and short == "no" else head
    elif what is None:
        head = makes or "not a generator"
    elif makes is None:
        head = what if short == "not measured" else f"{what}, not a generator"
    else:
        head = f"{what} and {makes}"
    joined = "but" if short == "no" else "and"
    clauses = [
        {
            "yes": "its energies can be read as log-densities",
            "partly": "its energies give the rough shape of the density",
            "no": "its energies are not log-densities",
            "not measured": "its density was not measured",
        }[density],
        {
            "yes": "short chains from noise give good samples",
            "partly": "short chains from noise give passable samples",
            "no": "short chains from noise do not reach the data distribution",
            "not measured": "short chains were not measured",
        }[short],
        {
            "yes": f"{joined} long chains {'stay' if short == 'yes' else 'are'} good",
            "partly": f"{joined} long chains are passable",
            "no": "but long chains lose the quality" if makes else "and neither do long ones",
            "not measured": "and long chains were not measured",
        }[long],
    ]
    if long == "no" and short == "not measured":
        clauses[2] = "and long chains do not reach the data distribution"
    return " ".join(filter(None, (f"{head[0].upper()}{head[1:]}: {', '.join(clauses)}.", faults)))


def _faults(ood: Grade, training: Grade) -> str:
    """A sentence on other problems; empty if there are none."""
    blind = "it does not detect out-of-distribution points"
    ill = "its training was not healthy"
    found = [text for text, graded in ((blind, ood), (ill, training)) if graded == "no"]
    joined = ", and ".join(found)
    return f"{joined[0].upper()}{joined[1:]}." if found else ""
