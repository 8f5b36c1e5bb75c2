package config

import (
	"regexp"
	"slices"
	"strings"

	"polis/daemon/api"
)

// placeholder stands for the task in a command line.
const placeholder = "{prompt}"

// How a command line takes a task.
const (
	// FormSeparator: after a word "--", which ends the options.
	FormSeparator = "separator"
	// FormJoined: within a word, as in --prompt={prompt}.
	FormJoined = "joined"
	// FormArgument: as a word of its own.
	FormArgument = "argument"
)

// PromptCommand is the command line that works on prompt: the agent's own, if it has one,
// with what the type gives a task by, else the type's. Nil if there is neither.
//
// No program may take a task for one of its options, as most do with a text that begins
// with '-'. In a word of its own (FormArgument) such a text gets a space before it.
func (t BaseType) PromptCommand(own []string, prompt string) []string {
	line := t.TaskCommand(own)
	if len(line) == 0 {
		return nil
	}
	guarded := prompt
	if strings.HasPrefix(prompt, "-") && promptForm(line) == FormArgument {
		guarded = " " + prompt
	}
	out := make([]string, 0, len(line))
	for _, w := range line {
		out = append(out, strings.ReplaceAll(w, placeholder, guarded))
	}
	return out
}

// modelPlaceholder stands for the model in BaseType.Model.
const modelPlaceholder = "{model}"

var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// With is the type with a Run line that chooses a model ("" for the usual one) and, with
// goOn, continues the last session. own is the agent's own command line, which
// polis does not change.
func (t BaseType) With(own []string, model string, goOn bool) (BaseType, error) {
	var words []string
	for _, o := range []struct {
		name  string
		given bool
		words []string
	}{{"model", model != "", t.Model}, {"continue", goOn, t.Continue}} {
		switch {
		case !o.given:
			continue
		case len(own) > 0:
			return t, api.Errorf(api.CodeBadRequest, "%s: the agent has a command line of its own, which says that", o.name).
				WithHint("add the option to that command line")
		case len(o.words) == 0:
			return t, api.Errorf(api.CodeBadRequest, "%s: the base type %s does not say how", o.name, t.Name).
				WithHint("agents.d/%s.toml may have %s = [...]: see \"Base types\" of configuration.md", t.Name, o.name)
		}
		for _, w := range o.words {
			words = append(words, strings.ReplaceAll(w, modelPlaceholder, model))
		}
	}
	if model != "" && !modelName.MatchString(model) {
		return t, api.Errorf(api.CodeBadRequest, "model = %q: must be letters, digits and . _ : / @ + -, beginning with a letter or digit", api.Shorten(model, 64))
	}
	t.Run = withOptions(t.Run, words)
	return t, nil
}

// Streaming is the type with a Run line that prints what it does as lines of its format;
// false if it has none, or own, the agent's own command line, is what runs.
func (t BaseType) Streaming(own []string) (BaseType, bool) {
	if len(own) > 0 || len(t.Run) == 0 || t.Stream.Format == "" {
		return t, false
	}
	t.Run = withOptions(t.Run, t.Stream.Args)
	return t, true
}

// withOptions is a command line with more options, before the task.
func withOptions(run, words []string) []string {
	if at := slices.IndexFunc(run, func(w string) bool { return w == "--" || strings.Contains(w, placeholder) }); at >= 0 {
		return slices.Insert(slices.Clone(run), at, words...)
	}
	return slices.Concat(run, words)
}

// TakesModel reports whether an agent with this command line of its own ("": the type's) can be
// started with a model: by an option of the type's lines.
func (t BaseType) TakesModel(own []string) bool { return len(own) == 0 && len(t.Model) > 0 }

// StartWith is StartCommand with a model ("" for the usual one), if the line takes one.
func (t BaseType) StartWith(own []string, model string) []string {
	line := t.StartCommand(own)
	if model == "" || !t.TakesModel(own) || len(line) == 0 {
		return line
	}
	var words []string
	for _, w := range t.Model {
		words = append(words, strings.ReplaceAll(w, modelPlaceholder, model))
	}
	return withOptions(line, words)
}

// StartCommand is the command line that runs without a task: the agent's own, unless
// that is for tasks, else the type's. Nil if there is neither.
func (t BaseType) StartCommand(own []string) []string {
	if len(own) == 0 || takesPrompt(own) {
		return t.Interactive
	}
	return own
}

// TaskCommand is the command line for a task, with "{prompt}" where the task goes. Nil if
// there is none.
func (t BaseType) TaskCommand(own []string) []string {
	line := t.Run
	if len(own) > 0 {
		line = own
	}
	switch {
	case len(line) == 0 || takesPrompt(line):
		return line
	case len(own) > 0 && len(t.Prompt) > 0:
		return slices.Concat(own, t.Prompt)
	}
	return append(slices.Clone(line), placeholder)
}

func takesPrompt(line []string) bool {
	return slices.ContainsFunc(line, func(w string) bool { return strings.Contains(w, placeholder) })
}

// promptForm is how a command line takes a task. One that takes it more than once has
// the form of the place that is the least safe.
func promptForm(line []string) string {
	if len(line) == 0 {
		return ""
	}
	form, ended := "", false
	for _, w := range line {
		at := strings.Index(w, placeholder)
		switch {
		case at == 0 && !ended:
			return FormArgument
		case at == 0:
			form = FormSeparator
		case at > 0 && form == "":
			form = FormJoined
		}
		ended = ended || w == "--"
	}
	if form == "" {
		return FormArgument // it becomes the last argument
	}
	return form
}
