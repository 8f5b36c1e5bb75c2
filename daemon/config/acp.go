package config

// ByACP reports whether tasks of the type are given to its program by the Agent Client Protocol: if
// there is no other way, and if the role has rules for tools (asks) and the program's permission
// system is reached by this protocol only. Otherwise the program asks nobody, which is quicker. A
// program has one gate: one with a hook is not asked twice.
func (t BaseType) ByACP(asks bool) bool {
	return len(t.ACP) > 0 && (len(t.Run) == 0 || asks && t.Permissions.Kind == "acp")
}
