package reference

func gatewayTables() []Table {
	const noLimit = " 0 is no limit."
	keyFile := Key{Name: "key_file", Text: "A file with the key. It must belong to root, and no other user may read it, or change its directories and the links in its path. polisd reads it when an agent starts, on a reload, and when the service answers 401.", Default: "none", Example: `"/etc/polis/keys/anthropic"`}
	credential := Key{Name: "credential", Text: "The name of a credential of polisd's unit with the key, see systemd.exec(5), LoadCredential=.", Default: "none", Example: `"anthropic-key"`}
	command := []Key{
		{Name: "key_command", Text: "A program and its arguments that prints the key. There is no shell; the program must belong to root, and nobody else may write it, its directories, the links in its path or, if it is a script, its interpreter. It has 10 seconds. " +
			"The key is used for `key_refresh`, until a reload, or until the service answers 401.", Default: "none", Example: `["/usr/local/bin/print-key", "anthropic"]`},
		{Name: "key_user", Text: "The user that `key_command` runs as.", Default: `"nobody"`, Example: `"keys"`},
		{Name: "key_refresh", Text: "How long a key of `key_command` is used.", Default: `"1h"`, Range: between("1m", "720h")},
	}
	return []Table{{Name: "models.NAME", Text: "A model service that agents reach by the gateway of their shims, which adds the key (docs/gateway.md).",
		Example: "[models.claude]\nkind = \"anthropic\"\nkey_file = \"/etc/polis/keys/anthropic\"", Keys: []Key{
			{Name: "kind", Text: "The API of the service.", Values: []string{"anthropic", "openai", "gemini", "openai-compatible"}, Default: `"openai-compatible"`},
			{Name: "url", Text: "The address of the service, without the path of its API: https://, or http:// and this machine's own loopback.", Default: "the provider's own; required for openai-compatible", Example: `"http://127.0.0.1:11434"`},
			keyFile, credential, command[0], command[1], command[2],
			{Name: "allow_models", Text: "Patterns of the models that agents may use, in which * matches any text; [] is all.", Default: "[]", Example: `["claude-*"]`},
			{Name: "record", Text: "Whether the requests of tasks to the service and their answers are recorded, so that a task can be replayed (docs/gateway.md, \"Record and replay\").", Default: "false"},
			{Name: "currency", Text: "The currency of `prices`: three capital letters.", Default: "none", Example: `"USD"`},
		}}, {Name: "models.NAME.prices", Text: "What a model costs from a day on, per million tokens. polis knows no price by itself.",
		Example: "[[models.claude.prices]]\nmodel = \"claude-*\"\nfrom = \"2026-01-01\"\ninput = 3.0\noutput = 15.0", Keys: []Key{
			{Name: "model", Text: "A pattern for the names of models, in which * matches any text.", Default: "any model", Example: `"claude-*"`},
			{Name: "from", Text: "The first day, YYYY-MM-DD, in UTC. Of the prices that match, the one with the last day that has begun applies.", Default: "any day", Example: `"2026-01-01"`},
			{Name: "input", Text: "Tokens of requests.", Range: between("0", "1000000")},
			{Name: "output", Text: "Tokens of answers.", Range: between("0", "1000000")},
			{Name: "cache_read", Text: "Tokens of requests that the service has cached.", Range: between("0", "1000000")},
			{Name: "cache_write", Text: "Tokens of requests that the service caches.", Range: between("0", "1000000")},
		}}, {Name: "services.NAME", Text: "A service that is no model service, such as a package registry, which agents reach by the gateway of their shims (docs/gateway.md). It is at " +
		"http://NAME.polis.internal:11717 of the agents that use it. The gateway adds the key.",
		Example: "[services.github]\nurl = \"https://api.github.com\"\nkey_file = \"/etc/polis/keys/github\"\npaths = [\"/repos/example/app/**\", \"POST /repos/example/app/issues\"]", Keys: []Key{
			{Name: "url", Text: "The address of the service: https://, or http:// and this machine's own loopback; perhaps a path.", Default: "required", Example: `"https://api.github.com"`},
			{Name: "header", Text: "The header that carries the key: a name, and a value with {key}. `Basic {base64:USER:{key}}` is HTTP basic authentication.",
				Default: `"Authorization: Bearer {key}"`, Example: `"PRIVATE-TOKEN: {key}"`},
			keyFile, credential, command[0], command[1], command[2],
			{Name: "methods", Text: "The methods that agents may use for `paths`. GET allows HEAD. Those are GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS.", Default: `["GET"]`},
			{Name: "paths", Text: "Patterns of the paths that agents may request, in which * is any text within a segment, and ** any segments. A pattern can have methods of its own: " +
				"`\"POST,PATCH /repos/example/app/issues/**\"`.", Default: "required", Example: `["/repos/example/app/**"]`},
			{Name: "request_headers", Text: "Headers of requests that reach the service, in addition to common ones such as Accept and Content-Type.", Default: "[]", Example: `["X-Trace-Id"]`},
			{Name: "requests_per_minute", Text: "Requests of each agent to the service in any minute; one above it is refused with status 429." + noLimit, Range: between("0", "100000")},
			{Name: "env", Text: "Variables of the agents that use the service. They override all others of these names. {url} stands for the address of the service in the sandbox, {key} for a word that is no key; " +
				"a variable with {key} is not set if the service has no key.", Default: "none", Example: `{ NPM_CONFIG_REGISTRY = "{url}/" }`},
			{Name: "without", Text: "Variables that these agents do not get, because they can have a key.", Default: "[]", Example: `["NPM_TOKEN"]`},
		}}, {Name: "gateway", Text: "What each agent uses of the model services. A request above a limit is refused with the provider's own form of an error, status 429.", Keys: []Key{
		{Name: "models", Text: "Names of tables [models.NAME] that agents use; [] is none.", Default: "[]", Example: `[]`},
		{Name: "services", Text: "Names of tables [services.NAME] that agents use; [] is none.", Default: "[]", Example: `[]`},
		{Name: "record", Text: "Whether the requests of tasks to all model services are recorded. In [roles.NAME.gateway] it also takes precedence over that of [models.NAME].", Default: "as in [models.NAME]"},
		{Name: "requests_per_minute", Text: "Requests in any minute." + noLimit, Range: between("0", "100000")},
		{Name: "task_tokens", Text: "Tokens of one task, of all kinds together." + noLimit, Range: between("0", "1000000000000000")},
		{Name: "day_tokens", Text: "Tokens of one agent on one day, in UTC." + noLimit, Range: between("0", "1000000000000000")},
		{Name: "task_money", Text: "Cost of one task, in the currency of the prices." + noLimit, Range: between("0", "1000000000")},
		{Name: "day_money", Text: "Cost of one agent on one day." + noLimit, Range: between("0", "1000000000")},
		{Name: "on_budget", Text: "What happens when a budget is spent: requests are refused; the agent is frozen, and a question opens whether to raise it by `budget_step`; or the answers that are open are finished, " +
			"and then the task ends (`task_tokens`, `task_money`) or the agent stops (`day_tokens`, `day_money`, or no task).", Values: []string{"refuse", "ask", "stop"}},
		{Name: "budget_step", Text: "How much an approval raises a spent budget by, in percent of it, for the present task or day. 0 is the default.", Range: between("0", "1000")},
	}}, {Name: "recordings", Text: "The recordings of requests to model services (`record`). Only root can read them.", Keys: []Key{
		{Name: "task_mb", Text: "The limit of the recording of one task, in MiB. Later requests of the task are not recorded.", Range: between("1", "1048576")},
		{Name: "max_mb", Text: "The limit of all recordings of the machine, in MiB. Those of the oldest tasks are removed.", Range: between("1", "1048576")},
		{Name: "keep", Text: "How long a recording is kept.", Range: between("1h", "87600h")},
	}}}
}
