#!/usr/bin/env python3
"""The last screen of a command as a picture: screenshot.py COLUMNS OUT.svg COMMAND..

Runs the command in a terminal of that width and draws what is left on it: text, colours, and lines that were drawn again
as they were at the end. `$ COMMAND` stands above it, with the folder of the program left out. ROWS=N keeps the first N lines;
UNTIL=TEXT takes the screen as it was when a line with this text was drawn first.
"""
import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios

COLOURS = {"31": "#c2452d", "32": "#2f7d43", "33": "#a3710b", "34": "#2563a8"}
WIDTH, HEIGHT, MARGIN = 8.4, 18, 14  # of a character and around the text, in pixels


def output_of(columns, command):
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execvp(command[0], command)
    out = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    os.waitpid(child, 0)
    return out.decode()


def screen_of(text):
    """Lines of cells, each a character with its style."""
    lines, row, column, style = [[]], 0, 0, ""
    for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]", text):
        if token == "\n":
            row += 1
            if row == len(lines):
                lines.append([])
        elif token == "\r":
            column = 0
        elif token.endswith("K") and token[0] == "\x1b":
            del lines[row][column:]
        elif token[0] == "\x1b":
            style = "" if token == "\x1b[0m" else token[2:-1]
        else:
            line = lines[row]
            line.extend([(" ", "")] * (column + 1 - len(line)))
            line[column] = (token, style)
            column += 1
    while lines and not lines[-1]:
        lines.pop()
    return lines


def attributes(style):
    if style == "1":
        return ' font-weight="bold"'
    return f' fill="{"#8a8f98" if style == "2" else COLOURS[style]}"' if style else ""


def picture_of(lines, columns):
    width, height = columns * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#24292f">',
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#f7f8fa"/>',
    ]
    for row, line in enumerate(lines):
        at = 0
        while at < len(line):
            end = at
            while end < len(line) and line[end][1] == line[at][1]:
                end += 1
            text = "".join(character for character, _ in line[at:end])
            if text.strip():
                x, y = MARGIN + at * WIDTH, MARGIN + row * HEIGHT + 13
                out.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{(end - at) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'xml:space="preserve"{attributes(line[at][1])}>{html.escape(text)}</text>'
                )
            at = end
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    columns, path, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    typed = " ".join([os.path.basename(command[0]), *command[1:]])
    output = output_of(columns, command)
    if "UNTIL" in os.environ:
        output = output[: output.index("\r", output.index(os.environ["UNTIL"]))]
    lines = [[(c, "1") for c in "$ " + typed]] + screen_of(output)
    rows = int(os.environ.get("ROWS", "0"))
    with open(path, "w", encoding="utf-8") as out:
        out.write(picture_of(lines[:rows] if rows else lines, columns))


main()
