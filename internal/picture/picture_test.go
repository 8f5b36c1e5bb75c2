package picture

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the pictures in docs/pictures again")

const pictures = "../../docs/pictures"

// TestPicturesAreFresh: each SVG is what its text makes. "make pictures" writes them.
func TestPicturesAreFresh(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join(pictures, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, source := range sources {
		b, err := os.ReadFile(source)
		require.NoError(t, err)
		title, text, ok := strings.Cut(string(b), "\n")
		require.True(t, ok, source)
		svg, err := Diagram(title, text)
		require.NoError(t, err, source)
		wellFormed(t, svg)
		path := strings.TrimSuffix(source, ".txt") + ".svg"
		if *update {
			require.NoError(t, os.WriteFile(path, svg, 0o644)) //nolint:gosec // it is documentation
			continue
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(svg), string(have), "%s is not what %s makes: run make pictures", path, source)
	}
}

// TestEveryPictureHasAPlace: each SVG has a source or a test that records it, and a page that shows it.
func TestEveryPictureHasAPlace(t *testing.T) {
	svgs, err := filepath.Glob(filepath.Join(pictures, "*.svg"))
	require.NoError(t, err)
	pages := ""
	for _, glob := range []string{"../../*.md", "../../docs/*.md", "../../docs/guide/*.md"} {
		names, err := filepath.Glob(glob)
		require.NoError(t, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			pages += string(b)
		}
	}
	for _, svg := range svgs {
		require.True(t, strings.Contains(pages, "pictures/"+filepath.Base(svg)), "no page shows %s", svg)
	}
}

func TestDiagram(t *testing.T) {
	for _, c := range []struct {
		name, text string
		has        []string
		lines      int
		boxes      int
	}{
		{"a box", "+---+\n| a |\n+---+", []string{">a</text>"}, 4, 1},
		{"a nested box is lighter", "+-------+\n| +---+ |\n| | b | |\n| +---+ |\n+-------+", []string{`class="d0"`, `class="d1"`, ">b</text>"}, 8, 2},
		{"an arrow", "a --> b", []string{">a</text>", ">b</text>", "<polygon"}, 1, 0},
		{"hyphens in words are text", "polis-shim|v>", []string{"polis-shim|v&gt;</text>"}, 0, 0},
		{"bold words", "*polisd*", []string{`class="head"`, ">polisd</text>"}, 0, 0},
		{"text that XML would read", "<&>\"", []string{"&lt;&amp;&gt;&#34;</text>"}, 0, 0},
		{"an open rectangle is no box", "+--+\n|  |\n+- +", nil, 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			svg, err := Diagram("title", c.text)
			require.NoError(t, err)
			wellFormed(t, svg)
			for _, want := range c.has {
				require.Contains(t, string(svg), want)
			}
			require.Equal(t, c.lines, strings.Count(string(svg), `class="line"`))
			require.Equal(t, c.boxes, strings.Count(string(svg), `<rect class="d`))
		})
	}
	for _, bad := range []string{"", "\n\n", strings.Repeat("x", maxSide+1), strings.Repeat("x\n", maxSide+1)} {
		_, err := Diagram("title", bad)
		require.Error(t, err)
	}
}

func TestTerminal(t *testing.T) {
	svg := string(Terminal("a screen", 20, []string{"plain \x1b[1;31mred\x1b[0m", "\x1b[7m on \x1b[27moff", "\x1b[38;5;196mcube\x1b[38;2;1;2;3mall", "\x1b[2J<\x1b[4munder"}))
	wellFormed(t, []byte(svg))
	for _, want := range []string{">plain</text>", `fill:#ff7b72" font-weight="bold"`, `fill="#e6edf3"`, ">off</text>", "fill:#ff0000", "fill:#010203", "&lt;</text>", "underline"} {
		require.Contains(t, svg, want)
	}
	require.NotContains(t, svg, "[2J")
}

// TestAnyTextIsAPicture: whatever the text is, the picture is XML without scripts or links, and nothing panics.
func TestAnyTextIsAPicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("+-|<>v^ \nab*\x1b[1m38;5&\"\x00\ufffe\u4e16")), 1, 300, -1).Draw(t, "text")
		if svg, err := Diagram(text, text); err == nil {
			wellFormed(t, svg)
		}
		wellFormed(t, Terminal(text, 40, strings.Split(text, "\n")))
	})
}

func wellFormed(t require.TestingT, svg []byte) {
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, "%s", svg)
		if e, ok := token.(xml.StartElement); ok {
			require.Contains(t, []string{"svg", "title", "style", "rect", "path", "polygon", "text"}, e.Name.Local)
		}
	}
}
