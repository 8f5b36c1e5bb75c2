package reference

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"

	"polis/daemon/config"
)

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, f := range []File{Daemon(), Types()} {
		require.NoError(t, f.Check(), "%s: add the key to daemon/config/reference, then run: make docs", f.Page)
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	f := Daemon()
	f.Tables = slices.Clone(f.Tables)[1:]
	f.Tables[0].Keys = append([]Key{{Name: "nonsense", Text: "x"}}, f.Tables[0].Keys[1:]...)
	f.Tables = append(f.Tables, Table{Name: "none", Keys: []Key{{Name: "such", Text: "x"}}})
	err := f.Check()
	for _, want := range []string{"key run_dir is not described", "key network.nonsense does not exist", "key network.pool is not described", "table [none] does not exist"} {
		require.ErrorContains(t, err, want)
	}
}

var commented = regexp.MustCompile(`(?m)^#([^ :\n])`)

// TestTheSampleHasEveryDefault: without the marks of comments, the sample is the default configuration.
func TestTheSampleHasEveryDefault(t *testing.T) {
	text := commented.ReplaceAllString(string(Daemon().Sample()), "$1")
	got, err := config.Parse(text)
	require.NoError(t, err)
	want := config.Default()
	// The struct has no value for what these leave as it is.
	for _, b := range []**int64{&got.Breakers.Deletions, &got.Breakers.Denials, &got.Breakers.WrittenMB, &got.Breakers.Names, &got.Breakers.Repeats} {
		require.NotNil(t, *b)
	}
	require.Equal(t, want.BreakersOf(""), got.BreakersOf(""))
	got.Breakers = want.Breakers
	asJSON := func(c config.Config) string {
		b, err := json.Marshal(c)
		require.NoError(t, err)
		return strings.ReplaceAll(string(b), "[]", "null")
	}
	require.JSONEq(t, asJSON(want), asJSON(got))
	plain, err := config.Parse(string(Daemon().Sample()))
	require.NoError(t, err)
	require.Equal(t, want, plain)
}

// Keys whose bounds depend on another key.
var needs = map[string]string{
	"limits.total.memory_mb":    "limits.memory_mb = 16",
	"limits.total.pids":         "limits.pids = 16",
	"limits.memory_ask.max_mb":  "limits.memory_ask.step_mb = 16",
	"limits.memory_ask.step_mb": "limits.memory_ask.max_mb = 16",
	"stream.args":               "stream.format = \"claude\"",
	"permissions.file":          "permissions.kind = \"hook\"",
}

// document is a file with one key.
func document(f File, r row, value string) string {
	table := strings.ReplaceAll(r.table, "NAME", "docs")
	if f.repeated(Table{Name: r.table}) {
		return "[[" + table + "]]\n" + r.Name + " = " + value
	}
	before := ""
	if r.table == "services.NAME" { // these have no default
		for name, value := range map[string]string{"url": `"https://example.com"`, "paths": `["/**"]`, "key_file": `"/k"`} {
			if name != r.Name && (name != "key_file" || r.Name == "header") {
				before += join(table, name) + " = " + value + "\n"
			}
		}
	}
	return before + needs[join(r.table, r.Name)] + "\n" + join(table, r.Name) + " = " + value
}

func parse(f File, text string) error {
	if f.Page == "polisd.toml" {
		_, err := config.Parse(text)
		return err
	}
	dir, err := os.MkdirTemp("", "polis-reference-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "x.toml"), []byte(text), 0o600); err != nil {
		return err
	}
	_, err = config.LoadTypes(dir, config.Sandbox{})
	return err
}

// TestRangesAndWordsAreThoseOfTheCheck: polisd accepts the bounds of a key and refuses what is beyond them.
func TestRangesAndWordsAreThoseOfTheCheck(t *testing.T) {
	ranges, words := 0, 0
	for _, f := range []File{Daemon(), Types()} {
		for _, table := range f.Tables {
			for _, r := range append(f.rows(table), f.likeRows(table)...) {
				r.table = table.Name
				if r.Range[0] != "" {
					ranges++
					checkRange(t, f, r)
				}
				if len(r.Values) > 0 && !f.repeated(table) && r.table != "stream" && r.table != "permissions" {
					words++
					for _, w := range r.Values {
						require.NoError(t, parse(f, document(f, r, strconv.Quote(w))), "%s = %q", r.Name, w)
					}
					require.Error(t, parse(f, document(f, r, `"nonsense"`)), "%s: words", r.Name)
				}
			}
		}
	}
	require.Greater(t, ranges, 40)
	require.Greater(t, words, 15)
}

func checkRange(t *testing.T, f File, r row) {
	var quote, less, more string
	if r.kind == kindDuration {
		quote, less, more = `"`, "-1ms", "90000h"
		if r.Zero {
			less = "1ms"
		}
	} else {
		less, more = step(t, r.Range[0], -1), step(t, r.Range[1], 1)
	}
	for _, v := range r.Range {
		require.NoError(t, parse(f, document(f, r, quote+v+quote)), "%s.%s = %s", r.table, r.Name, v)
	}
	for _, v := range []string{less, more} {
		require.Error(t, parse(f, document(f, r, quote+v+quote)), "%s.%s = %s", r.table, r.Name, v)
	}
	if zero := map[bool]string{true: `"0s"`, false: "0"}[quote != ""]; r.Zero && needs[join(r.table, r.Name)] == "" {
		require.NoError(t, parse(f, document(f, r, zero)), "%s.%s = %s", r.table, r.Name, zero)
	}
}

func step(t *testing.T, number string, by float64) string {
	n, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	if n < 1 && n > 0 {
		by /= 100
	}
	return strconv.FormatFloat(n+by, 'f', -1, 64)
}

func TestExamplesAreValid(t *testing.T) {
	for _, f := range []File{Daemon(), Types()} {
		require.NoError(t, parse(f, f.Example))
		for _, table := range f.Tables {
			require.NoError(t, parse(f, table.Example), table.Name)
			for _, r := range f.rows(table) {
				if r.Example != "" && !f.repeated(table) {
					require.NoError(t, parse(f, document(f, r, r.Example)), "%s.%s", table.Name, r.Name)
				}
			}
		}
	}
}

// TestTheSchemaAcceptsWhatPolisdAccepts: the sample, the examples and the built-in types.
func TestTheSchemaAcceptsWhatPolisdAccepts(t *testing.T) {
	schemas := map[string]map[string]any{}
	for _, f := range []File{Daemon(), Types()} {
		b, err := f.Schema()
		require.NoError(t, err)
		var s map[string]any
		require.NoError(t, json.Unmarshal(b, &s))
		schemas[f.Page] = s
	}
	valid := func(page, text string) error {
		var v map[string]any
		_, err := toml.Decode(text, &v)
		require.NoError(t, err)
		b, err := json.Marshal(v)
		require.NoError(t, err)
		var doc any
		require.NoError(t, json.Unmarshal(b, &doc))
		return validate(schemas[page], doc, "")
	}
	d := Daemon()
	require.NoError(t, valid(d.Page, commented.ReplaceAllString(string(d.Sample()), "$1")))
	require.NoError(t, valid(d.Page, d.Example))
	for _, table := range d.Tables {
		require.NoError(t, valid(d.Page, table.Example))
	}
	for _, bad := range []string{"nonsense = 1", "[network]\nnonsense = 1", "max_agents = 0", "max_agents = \"10\"", "launcher = \"init\"", "[roles.x]\nnonsense = true",
		"[roles.x.locks]\nhold = \"always\"", "[patrol]\ninterval = \"soon\"", "[[locks.rule]]\nnonsense = 1", "[limits]\ndisk_mb = 3"} {
		require.Error(t, valid(d.Page, bad), bad)
		require.Error(t, parse(d, bad), bad)
	}
	files, err := filepath.Glob("../types/*.toml")
	require.NoError(t, err)
	require.Greater(t, len(files), 5)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, valid(Types().Page, string(b)), file)
	}
}

// validate checks a document with the part of JSON schema that these schemas use.
func validate(s map[string]any, doc any, at string) error {
	bad := func(rule any) error { return fmt.Errorf("%s: %v does not fit %v", at, doc, rule) }
	if any, ok := s["anyOf"].([]any); ok {
		if !slices.ContainsFunc(any, func(o interface{}) bool { return validate(o.(map[string]interface{}), doc, at) == nil }) {
			return bad(any)
		}
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, doc) {
		return bad(words)
	}
	if c, ok := s["const"]; ok && c != doc {
		return bad(c)
	}
	n, isNumber := doc.(float64)
	if least, ok := s["minimum"].(float64); ok && isNumber && n < least {
		return bad(least)
	}
	if most, ok := s["maximum"].(float64); ok && isNumber && n > most {
		return bad(most)
	}
	text, isText := doc.(string)
	if p, ok := s["pattern"].(string); ok && isText && !regexp.MustCompile(p).MatchString(text) {
		return bad(p)
	}
	list, isList := doc.([]any)
	table, isTable := doc.(map[string]any)
	_, isBool := doc.(bool)
	if is, ok := map[any]bool{"string": isText, "boolean": isBool, "integer": isNumber && n == float64(int64(n)), "number": isNumber, "array": isList, "object": isTable}[s["type"]]; ok && !is {
		return bad(s["type"])
	}
	for i, v := range list {
		if items, ok := s["items"].(map[string]any); ok {
			if err := validate(items, v, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	for k, v := range table {
		properties, _ := s["properties"].(map[string]any)
		next, ok := properties[k].(map[string]any)
		if !ok {
			next, ok = s["additionalProperties"].(map[string]any)
		}
		if !ok {
			return fmt.Errorf("%s: unknown key %s", at, k)
		}
		if err := validate(next, v, at+"."+k); err != nil {
			return err
		}
	}
	return nil
}

// TestThePageIsRoff: no line of text is read as a request.
func TestThePageIsRoff(t *testing.T) {
	for _, f := range []File{Daemon(), Types()} {
		for line := range strings.Lines(string(f.Manual())) {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				require.Regexp(t, `^\.(\\" |(TH|SH|TP|B|BR|I|IP|PP|nf|fi)\b)`, line)
			}
		}
	}
}
