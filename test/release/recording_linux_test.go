package release

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// A frame is what the terminal showed for some seconds.
type frame struct {
	screen  string // lines with the escape sequences of colours, as tmux captures them
	seconds float64
}

const (
	columns, rows = 90, 26
	cellWidth     = 8.4
	lineHeight    = 18
)

// palette holds the terminal's 16 colours.
var palette = [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
}

// animate renders frames as an SVG picture that shows one after another, for
// ever. It has no script, so that pages of documentation show it.
func animate(frames []frame) string {
	var total float64
	for _, f := range frames {
		total += f.seconds
	}
	var style, body strings.Builder
	var at float64
	for i, f := range frames {
		from, to := 100*at/total, 100*(at+f.seconds)/total
		at += f.seconds
		fmt.Fprintf(&style, "@keyframes f%d{0%%,%.3f%%{visibility:hidden}%.3f%%,%.3f%%{visibility:visible}%.3f%%,100%%{visibility:hidden}}\n", i, max(from-0.001, 0), from, to, min(to+0.001, 100))
		fmt.Fprintf(&style, "#f%d{visibility:hidden;animation:f%d %.1fs step-end infinite}\n", i, i, total)
		fmt.Fprintf(&body, "<g id=\"f%d\">\n", i)
		for n, line := range strings.Split(strings.TrimRight(f.screen, "\n"), "\n") {
			if text := spans(line); text != "" {
				fmt.Fprintf(&body, "<text x=\"12\" y=\"%d\">%s</text>\n", 28+n*lineHeight, text)
			}
		}
		body.WriteString("</g>\n")
	}
	width, height := int(columns*cellWidth)+24, rows*lineHeight+24
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="The first hour with Copilot Bridge in a terminal">
<style>
text{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}
%s</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
%s</svg>
`, width, height, style.String(), body.String())
}

// spans turns a line with the escape sequences of colours into SVG.
func spans(line string) string {
	var out strings.Builder
	style := look{}
	for line != "" {
		text, rest, escaped := strings.Cut(line, "\x1b[")
		if text != "" {
			out.WriteString(style.span(text))
		}
		if !escaped {
			break
		}
		codes, after, _ := strings.Cut(rest, "m")
		style = style.with(strings.Split(codes, ";"))
		line = after
	}
	if strings.TrimSpace(out.String()) == "" {
		return ""
	}
	return out.String()
}

// A look is how text is shown.
type look struct {
	colour        string
	bold, dim     bool
	italic, under bool
}

func (l look) with(codes []string) look {
	for i := 0; i < len(codes); i++ {
		n, _ := strconv.Atoi(codes[i]) // an empty code means 0
		switch {
		case n == 0:
			l = look{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 3:
			l.italic = true
		case n == 4:
			l.under = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 23:
			l.italic = false
		case n == 24:
			l.under = false
		case n == 39:
			l.colour = ""
		case 30 <= n && n <= 37:
			l.colour = palette[n-30]
		case 90 <= n && n <= 97:
			l.colour = palette[n-90+8]
		case n == 38 && i+4 < len(codes) && codes[i+1] == "2":
			l.colour = fmt.Sprintf("rgb(%s,%s,%s)", codes[i+2], codes[i+3], codes[i+4])
			i += 4
		case n == 38 && i+2 < len(codes) && codes[i+1] == "5":
			l.colour = indexed(codes[i+2])
			i += 2
		case n == 48 && i+2 < len(codes) && codes[i+1] == "5":
			i += 2 // backgrounds are not drawn
		case n == 48 && i+4 < len(codes):
			i += 4
		}
	}
	return l
}

// indexed is a colour of the palette of 256.
func indexed(code string) string {
	n, err := strconv.Atoi(code)
	switch {
	case err != nil || n > 255:
		return ""
	case n < 16:
		return palette[n]
	case n >= 232:
		return fmt.Sprintf("rgb(%[1]d,%[1]d,%[1]d)", 8+10*(n-232))
	}
	level := func(v int) int {
		if v == 0 {
			return 0
		}
		return 55 + 40*v
	}
	n -= 16
	return fmt.Sprintf("rgb(%d,%d,%d)", level(n/36), level(n/6%6), level(n%6))
}

func (l look) span(text string) string {
	var attributes string
	if l.colour != "" {
		attributes += ` fill="` + l.colour + `"`
	}
	if l.bold {
		attributes += ` font-weight="bold"`
	}
	if l.dim {
		attributes += ` opacity=".65"`
	}
	if l.italic {
		attributes += ` font-style="italic"`
	}
	if l.under {
		attributes += ` text-decoration="underline"`
	}
	if attributes == "" {
		return html.EscapeString(text)
	}
	return "<tspan" + attributes + ">" + html.EscapeString(text) + "</tspan>"
}
