package projectcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// places are the files of an owner's configuration of git.
var places = []string{"system", "global", "xdg", "local", "worktree"}

// ways are the ways in which a setting comes into such a file: directly, or by an include with a condition that holds or not. "@" is the
// project.
var ways = []string{"", "", "", "[include]", "[includeIf \"gitdir:@/\"]", "[includeIf \"gitdir:/nowhere/\"]", "[includeIf \"onbranch:main\"]",
	"[includeIf \"onbranch:other\"]", "[includeIf \"hasconfig:remote.*.url:https://corp.example/**\"]"}

// values are the keys that are configured. "~~" is the owner's home.
var values = map[string][]string{
	"user.name":                 {"Ann", "Ann B. <x>", "é", "a\\tb", strings.Repeat("n", 300), ""},
	"user.email":                {"ann@x.example", "<ann@y.example>", "a b@z"},
	"author.email":              {"author@x.example"},
	"committer.name":            {"Robot", " .Robot; "},
	"core.excludesFile":         {"~/ign", "~~/ign", "own-ignore", "", "~/none", "~/large", "~/binary"},
	"core.attributesFile":       {"~/attr", "~~/attr", "", "own-attributes", "~/none"},
	"core.autocrlf":             {"true", "input", "false", "Yes"},
	"core.eol":                  {"lf", "crlf", "native"},
	"core.fileMode":             {"false", "true"},
	"status.showUntrackedFiles": {"no", "all", "normal"},
	"filter.up.clean":           {"tr A-Z a-z", ""},
	"filter.up.smudge":          {"tr a-z A-Z", "cat"},
	"extensions.worktreeConfig": {"true"},
	"remote.origin.url":         {"https://corp.example/shop.git", "https://other.example/shop.git"},
	"submodule.lib.ignore":      {"all"},
	"user.useConfigOnly":        {"true"},
	"core.precomposeUnicode":    {"true"},
	"merge.conflictStyle":       {"diff3"},
}

// A world is a project with the configuration of its owner.
type world struct {
	config map[string]string // text by place
	files  map[string]string // below the home
	ours   map[string]string // committed, with any bytes
	local  map[string]string // below the common git directory
	linked bool              // a linked worktree
	bare   bool              // of a bare repository
	sparse bool
	module string // "", "filled", "empty"
	refs   []string
	later  []string // refs that are made after up
	before string   // a script of the owner, before up
}

func drawWorld(t *rapid.T) world {
	w := world{config: map[string]string{}, files: map[string]string{}, ours: map[string]string{}, local: map[string]string{}}
	pick := func(name string, percent int) bool { return rapid.IntRange(1, 100).Draw(t, name) <= percent }
	shape := rapid.SampledFrom([]string{"clone", "clone", "linked", "bare"}).Draw(t, "shape")
	w.linked, w.bare = shape != "clone", shape == "bare"
	keys := make([]string, 0, len(values))
	for k := range values {
		if k != "extensions.worktreeConfig" || !w.bare { // core.bare would count for the worktree
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for i := range rapid.IntRange(0, 9).Draw(t, "settings") {
		key := rapid.SampledFrom(keys).Draw(t, "key")
		value := rapid.SampledFrom(values[key]).Draw(t, "value")
		place, way := rapid.SampledFrom(places).Draw(t, "place"), rapid.SampledFrom(ways).Draw(t, "way")
		text := entryText(key, value)
		if way != "" {
			file := fmt.Sprintf("inc%d", i)
			w.files[file] = text
			text = way + "\n\tpath = ~~/" + file + "\n"
			if strings.HasPrefix(way, "[includeIf") && strings.HasPrefix(key, "remote.") {
				continue // git refuses it in a file of any condition, if there is one of hasconfig
			}
		}
		w.config[place] += text
	}
	ignore := rapid.SampledFrom([]string{"*.swp\n", ".idea/\n!keep.swp\n", "# only\n\n", "\ufeff*.o\r\nnotes.*", "\\#x\n*.log \n", "dir/**\n!dir/x.o\n"})
	attr := rapid.SampledFrom([]string{"*.txt text\n", "* text=auto eol=crlf\n", "*.up filter=up\n", "*.dat -diff\n# x\n", "# nothing\n", "[attr]mine text -diff\n*.c mine\n"})
	for _, f := range []struct {
		to   map[string]string
		name string
		gen  *rapid.Generator[string]
	}{{w.files, "ign", ignore}, {w.files, ".config/git/ignore", ignore}, {w.local, "info/exclude", ignore}, {w.ours, ".gitignore", ignore}, {w.ours, "own-ignore", ignore},
		{w.files, "attr", attr}, {w.files, ".config/git/attributes", attr}, {w.local, "info/attributes", attr}, {w.ours, ".gitattributes", attr}, {w.ours, "own-attributes", attr}} {
		if pick("has "+f.name, 40) {
			f.to[f.name] = f.gen.Draw(t, f.name)
		}
	}
	for name, text := range map[string]string{"a.txt": "one\ntwo\n", "crlf.txt": "one\r\ntwo\r\n", "bin.dat": "\x00\n\r\n", "dir/b.c": "int x;\n", "file.up": "shout\n"} {
		w.ours[name] = text
	}
	w.sparse = pick("sparse", 15)
	w.module = rapid.SampledFrom([]string{"", "", "", "", "", "filled", "empty"}).Draw(t, "module")
	w.later = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"refs/heads/feature/y", "refs/heads/agent/bar", "refs/tags/v2", "refs/remotes/origin/dev"}), 0, 3, rapid.ID).Draw(t, "later")
	w.refs = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"refs/heads/feature/x", "refs/heads/agent/foo", "refs/tags/v1", "refs/remotes/origin/main", "refs/heads/é", "refs/notes/commits"}), 0, 4, rapid.ID).Draw(t, "refs")
	return w
}

// entryText is a setting as a file has it.
func entryText(key, value string) string {
	section, name, _ := strings.Cut(key, ".")
	if sub, last, ok := strings.Cut(name, "."); ok {
		section, name = section+" \""+sub+"\"", last
	}
	return fmt.Sprintf("[%s]\n\t%s = \"%s\"\n", section, name, value)
}

// refusedFiles are files of ignore rules that polis does not use.
var refusedFiles = map[string]string{"large": strings.Repeat("*.swp\n", 20_000), "binary": "*.swp\n\x00"}

// at returns text for a project and a home.
func at(text, project, home string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "@/", project+"/"), "~~", home)
}

func writeAll(dir string, files map[string]string, project, home string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(at(text, project, home)), 0o644); err != nil { //nolint:gosec // the owner's files, which agents' git reads in no case
			return err
		}
	}
	return nil
}
