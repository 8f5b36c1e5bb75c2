package provenance

// The types of a statement.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType identifies what the parameters mean: docs/receipts.md.
	BuildType = "urn:polis:agent-merge:v1"
	// BuilderID identifies polisd, whatever machine it runs on.
	BuilderID = "urn:polis:polisd"
)

// Statement is an in-toto Statement v1.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Predicate  `json:"predicate"`
}

// Resource is an in-toto ResourceDescriptor.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations map[string]any    `json:"annotations,omitempty"`
}

// Predicate is a SLSA provenance v1.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition is what was asked for, and from what it was made.
type BuildDefinition struct {
	BuildType            string             `json:"buildType"`
	ExternalParameters   ExternalParameters `json:"externalParameters"`
	InternalParameters   InternalParameters `json:"internalParameters"`
	ResolvedDependencies []Resource         `json:"resolvedDependencies"`
}

// ExternalParameters are what people decided.
type ExternalParameters struct {
	Workspace string `json:"workspace"`
	Target    string `json:"target"`
	Branch    string `json:"branch"`
	Tasks     []Task `json:"tasks"`
}

// Task is a task whose work was merged. Its prompt is shortened to 200 characters.
type Task struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt,omitempty"`
}

// InternalParameters are what polis recorded of the agent.
type InternalParameters struct {
	Agent    string   `json:"agent"`
	BaseType string   `json:"baseType,omitempty"`
	Role     string   `json:"role,omitempty"`
	Models   []string `json:"models"`
	// Policy are the rules of the agent for reading and writing.
	Policy any `json:"policy,omitempty"`
	// Checked reports whether the check command of the workspace passed for this merge.
	Checked bool `json:"checked"`
	// NotRecorded are parts of the statement for which there is no receipt.
	NotRecorded []string `json:"notRecorded"`
}

// RunDetails are who did it, and when.
type RunDetails struct {
	Builder    Builder    `json:"builder"`
	Metadata   Metadata   `json:"metadata"`
	Byproducts []Resource `json:"byproducts"`
}

// Builder is polisd.
type Builder struct {
	ID string `json:"id"`
}

// Metadata is about one run.
type Metadata struct {
	InvocationID string `json:"invocationId"`
	StartedOn    string `json:"startedOn,omitempty"`
	FinishedOn   string `json:"finishedOn"`
}
