package reference

func gatewayTables() []Table {
	const noLimit = " 0 is no limit."
	return []Table{{Name: "models.NAME", Text: "A model service that agents reach by the gateway of their shims, which adds the key (docs/gateway.md).",
		Example: "[models.claude]\nkind = \"anthropic\"\nkey_file = \"/etc/polis/keys/anthropic\"", Keys: []Key{
			{Name: "kind", Text: "The API of the service.", Values: []string{"anthropic", "openai", "gemini", "openai-compatible"}, Default: `"openai-compatible"`},
			{Name: "url", Text: "The address of the service, without the path of its API: https://, or http:// and this machine's own loopback.", Default: "the provider's own; required for openai-compatible", Example: `"http://127.0.0.1:11434"`},
			{Name: "key_file", Text: "A file with the key. It must belong to root, and no other user may read it. polisd reads it when an agent starts and on a reload.", Default: "none", Example: `"/etc/polis/keys/anthropic"`},
			{Name: "credential", Text: "The name of a credential of polisd's unit with the key, see systemd.exec(5), LoadCredential=.", Default: "none", Example: `"anthropic-key"`},
			{Name: "allow_models", Text: "Patterns of the models that agents may use, in which * matches any text; [] is all.", Default: "[]", Example: `["claude-*"]`},
			{Name: "currency", Text: "The currency of `prices`: three capital letters.", Default: "none", Example: `"USD"`},
		}}, {Name: "models.NAME.prices", Text: "What a model costs from a day on, per million tokens. polis knows no price by itself.",
		Example: "[[models.claude.prices]]\nmodel = \"claude-*\"\nfrom = \"2026-01-01\"\ninput = 3.0\noutput = 15.0", Keys: []Key{
			{Name: "model", Text: "A pattern for the names of models, in which * matches any text.", Default: "any model", Example: `"claude-*"`},
			{Name: "from", Text: "The first day, YYYY-MM-DD, in UTC. Of the prices that match, the one with the last day that has begun applies.", Default: "any day", Example: `"2026-01-01"`},
			{Name: "input", Text: "Tokens of requests.", Range: between("0", "1000000")},
			{Name: "output", Text: "Tokens of answers.", Range: between("0", "1000000")},
			{Name: "cache_read", Text: "Tokens of requests that the service has cached.", Range: between("0", "1000000")},
			{Name: "cache_write", Text: "Tokens of requests that the service caches.", Range: between("0", "1000000")},
		}}, {Name: "gateway", Text: "What each agent uses of the model services. A request above a limit is refused with the provider's own form of an error, status 429.", Keys: []Key{
		{Name: "models", Text: "Names of tables [models.NAME] that agents use; [] is none.", Default: "[]", Example: `[]`},
		{Name: "requests_per_minute", Text: "Requests in any minute." + noLimit, Range: between("0", "100000")},
		{Name: "task_tokens", Text: "Tokens of one task, of all kinds together." + noLimit, Range: between("0", "1000000000000000")},
		{Name: "day_tokens", Text: "Tokens of one agent on one day, in UTC." + noLimit, Range: between("0", "1000000000000000")},
		{Name: "task_money", Text: "Cost of one task, in the currency of the prices." + noLimit, Range: between("0", "1000000000")},
		{Name: "day_money", Text: "Cost of one agent on one day." + noLimit, Range: between("0", "1000000000")},
	}}}
}
