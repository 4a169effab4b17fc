"""The drawing of the page on clusters: driver, scheduler, workers and storage, and what goes from one to the other."""

from typing import Any, Final

__all__ = ["drawing"]

TRUSTED: Final = "#f6e0dd"
PUBLIC: Final = "#dde8f4"


def drawing() -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    figure, axes = plt.subplots(figsize=(9.2, 4.9))
    axes.set(xlim=(0, 100), ylim=(0, 54))
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, title: str, text: str, colour: str) -> None:
        axes.add_patch(
            FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.3,rounding_size=1", fc=colour, ec="#555", lw=1)
        )
        axes.text(x + width / 2, y + height - 1.2, title, ha="center", va="top", fontsize=10, weight="bold")
        axes.text(x + width / 2, y + height - 4.6, text, ha="center", va="top", fontsize=8, linespacing=1.35)

    def arrow(start: tuple[float, float], end: tuple[float, float], both: bool = False, dashed: bool = False) -> None:
        axes.annotate("", end, start, arrowprops={
            "arrowstyle": "<|-|>" if both else "-|>", "lw": 1.2, "color": "#333", "ls": "--" if dashed else "-",
        })  # fmt: skip

    box(1, 18, 22, 19, "driver", "your program\n\nadds the noise,\ncharges the ledger,\nwrites its log", TRUSTED)
    box(37, 42, 26, 10, "scheduler", "knows who is there; gets no row,\nbut can have code run everywhere", TRUSTED)
    box(37, 24, 26, 13, "worker 1", "rows of some partitions,\ntheir dual variables", TRUSTED)
    box(37, 4, 26, 13, "worker 2, 3, ...", "rows of other partitions,\ntheir dual variables", TRUSTED)
    box(78, 14, 21, 17, "Parquet", "S3, HDFS, GCS,\na shared disk", TRUSTED)
    box(1, 3, 22, 8, "model and receipt", "", PUBLIC)
    arrow((23.6, 33), (36.4, 33))
    axes.text(30, 33.6, "weights $w_t$", ha="center", fontsize=8)
    arrow((36.4, 27.5), (23.6, 27.5))
    axes.text(30, 28.1, "exact sums", ha="center", fontsize=8)
    arrow((23.6, 22), (36.4, 14))
    arrow((36.4, 9), (23.6, 18.6))
    arrow((23.6, 36.5), (36.4, 45), both=True, dashed=True)
    axes.text(27, 44.5, "start, who lives", ha="center", fontsize=8)
    arrow((50, 41.4), (50, 37.6), both=True, dashed=True)
    arrow((77.4, 25), (63.6, 30))
    arrow((77.4, 20), (63.6, 11))
    axes.text(71, 30.2, "rows, once", ha="center", fontsize=8)
    arrow((12, 17.4), (12, 11.6))
    axes.text(12.8, 14, "with noise", fontsize=8)
    axes.text(
        68, 51, "red: private data, trusted\nblue: protected by the guarantee\n"
        "all arrows between machines: TLS on both sides",
        fontsize=8, va="top", linespacing=1.5,
    )  # fmt: skip
    figure.tight_layout(pad=0.3)
    return figure
