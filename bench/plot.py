#!/usr/bin/env python3
"""Draw the tables of the collectives as SVG: bandwidth of an allreduce over its size, the bound as a dashed line.

Usage: plot.py RESULTS
RESULTS/collectives.csv (shared memory) and RESULTS/tcp.csv become RESULTS/collectives.svg and RESULTS/tcp.svg; a table
that is missing is passed over.
"""
import csv
import math
import os
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 430, 330, 62, 34, 14, 84
COLOURS = {"Gyre": "#c0392b", "Gyre, registered": "#e67e22", "Gyre, TLS": "#d98880", "Open MPI": "#2471a3",
           "Open MPI, ring": "#7fb3d5", "MPICH": "#1e8449", "gloo": "#7d3c98", "bound": "#555555"}
LIBRARIES = {"openmpi": "Open MPI", "openmpi ring": "Open MPI, ring", "mpich": "MPICH"}


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def line(points, colour, dash):
    path = " ".join(f"{'ML'[i > 0]}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))
    dots = "" if dash else "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>{dots}'


def panel(title, series, at):
    """series: name -> {bytes: microseconds}; `at` is the panel's left edge."""
    sizes = sorted({size for points in series.values() for size in points})
    rates = [size / us for points in series.values() for size, us in points.items()]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    inner_x, inner_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(size):
        span = math.log2(sizes[-1] / sizes[0]) or 1
        return at + LEFT + inner_x * math.log2(size / sizes[0]) / span

    def y_of(rate):
        return TOP + inner_y * (high - math.log10(rate)) / (high - low)

    out = [f'<text x="{at + WIDTH / 2}" y="20" text-anchor="middle" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        y = y_of(10.0 ** power)
        text = f"{10.0 ** power:g}" if power < 3 else f"{10.0 ** (power - 3):g} k"
        out.append(f'<path d="M{at + LEFT},{y:.1f}h{inner_x}" stroke="#ddd"/>'
                   f'<text x="{at + LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for size in sizes:
        x, y = x_of(size), TOP + inner_y
        out.append(f'<path d="M{x:.1f},{TOP}v{inner_y}" stroke="#eee"/>'
                   f'<text transform="translate({x + 3:.1f},{y + 8}) rotate(60)">{size_text(size)}</text>')
    out.append(f'<text transform="translate({at + 13},{TOP + inner_y / 2}) rotate(-90)" text-anchor="middle">MB/s</text>')
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[name]
        dash = ' stroke-dasharray="5 4"' if name == "bound" else ""
        places = [(x_of(size), y_of(size / us)) for size, us in sorted(points.items())]
        out.append(line(places, colour, dash))
        out.append(f'<path d="M{at + LEFT + 10},{TOP + 10 + 14 * i}h18" stroke="{colour}" stroke-width="2"{dash}/>'
                   f'<text x="{at + LEFT + 33}" y="{TOP + 14 + 14 * i}">{name}</text>')
    return "\n".join(out)


def draw(path, panels):
    width = WIDTH * len(panels)
    body = "\n".join(panel(title, series, i * WIDTH) for i, (title, series) in enumerate(panels))
    with open(path + ".new", "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
                   f'height="{HEIGHT}" font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" '
                   f'fill="white"/>\n{body}\n</svg>\n')
    os.replace(path + ".new", path)


def read(rows, columns):
    """columns: column -> name, or a function of a row's library. Of several values for a point the least counts."""
    series = {}
    for row in rows:
        for column, name in columns.items():
            name = name(row["library"]) if callable(name) else name
            if row[column] and float(row[column]) > 0:
                points = series.setdefault(name, {})
                size, us = int(row["bytes"]), float(row[column])
                points[size] = min(points.get(size, us), us)
    return series


def panels_of(rows, where, columns):
    for ranks in sorted({int(row["ranks"]) for row in rows}):
        of_ranks = [row for row in rows if int(row["ranks"]) == ranks]
        yield f"allreduce, {where}, {ranks} ranks", read(of_ranks, columns)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    library = LIBRARIES.get
    tables = {"collectives": ("shared memory", {"gyre_us": "Gyre", "gyre_registered_us": "Gyre, registered",
                                                "mpi_us": library, "bound_us": "bound"}),
              "tcp": ("TCP", {"gyre_us": "Gyre", "gyre_tls_us": "Gyre, TLS", "mpi_us": library, "gloo_us": "gloo",
                              "floor_us": "bound"})}
    for name, (where, columns) in tables.items():
        path = os.path.join(sys.argv[1], name + ".csv")
        if not os.path.exists(path):
            print(f"no {path}: not drawn")
            continue
        rows = [row for row in csv.DictReader(open(path)) if row.get("operation", "allreduce") == "allreduce"]
        draw(os.path.join(sys.argv[1], name + ".svg"), list(panels_of(rows, where, columns)))


if __name__ == "__main__":
    main()
