"""What all of tandem's charts share: style, reading the CSV, writing PNG and SVG."""

import csv
import io
import os
import pathlib
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError as error:
    sys.exit(f"matplotlib is missing: {error}")

INK, GRID = "#333333", "#dddddd"

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.fonttype": "none",
        "svg.hashsalt": "tandem",
    }
)


def read(path):
    """Returns the rows of a CSV file, each a dictionary."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save(figure, stem):
    """Writes stem.png and stem.svg, each whole or not at all."""
    for extension, options in (("png", {"dpi": 150}), ("svg", {"metadata": {"Date": None}})):
        target = f"{stem}.{extension}"
        temporary = f"{target}.tmp.{os.getpid()}"
        drawn = io.BytesIO()  # drawing takes seconds, in which an interrupt shall leave no file
        figure.savefig(drawn, format=extension, **options)
        try:
            with open(temporary, "wb") as file:
                file.write(drawn.getbuffer())
            os.replace(temporary, target)
        except BaseException as error:
            if os.path.exists(temporary):
                os.remove(temporary)
            if not isinstance(error, OSError):
                raise
            sys.exit(f"{target}: cannot write: {error.strerror}")


def main(draw):
    """Runs a script whose arguments are a CSV file and the stem of what is written; `draw` gets the file's rows."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {pathlib.Path(sys.argv[0]).name} FILE.csv STEM")
    save(draw(read(sys.argv[1])), sys.argv[2])
