"""What figures of images and of classifiers are called.

Sample quality is named by measure, features and chains: kid_effnet_short. FID, KID and Inception
Score are figures of Inception's features; what those of EfficientNet give has names of its own.
"""

from __future__ import annotations

MEASURES = {
    "effnet": {"kid": "Kernel distance", "fid": "Fr\u00e9chet distance", "is": "Class score"},
    "inception": {"kid": "KID", "fid": "FID", "is": "Inception Score"},
}
FEATURES = {"effnet": "EfficientNet-Lite0", "inception": "Inception"}
CHAINS = {
    "short": "short-run samples",
    "long": "long-run samples",
    "bank": "bank",
    "from_data": "chains from data",
    "floor": "training against test images (floor)",
}

CLASSES = {
    "accuracy": "Accuracy on held-out images",
    "ece": "Expected calibration error (ECE)",
    "accuracy_refined": "Accuracy after refinement",
    "ece_refined": "ECE after refinement",
    "class_agreement": "Share of samples of a class that a separate classifier puts there",
    "judge_accuracy": "Accuracy of that classifier on held-out images",
}

NEAREST = {
    "nearest_ratio": "Distance of samples to the nearest training image, over that of test images",
}


def quality_keys() -> list[str]:
    """All that sample quality may be named, in their order."""
    return [f"{m}_{f}_{c}" for f, named in MEASURES.items() for m in named for c in CHAINS]


def quality_label(key: str, short: bool = False) -> str:
    """Of one of these keys; `short` for narrow tables."""
    measure, features, chains = key.split("_", 2)
    name = MEASURES[features][measure]
    if short:
        where = CHAINS[chains].removesuffix(" samples")
        return f"{name} ({FEATURES[features].partition('-')[0]}), {where}"
    return f"{name} of {FEATURES[features]} features, {CHAINS[chains]}"


QUALITY = {key: quality_label(key) for key in quality_keys()}
IMAGE_LABELS = {**CLASSES, **QUALITY, **NEAREST}
"""In the order of tables."""
