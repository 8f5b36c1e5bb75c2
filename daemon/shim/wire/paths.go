package wire

// ToolPath is where the sandbox has polisctl, if polisd found it.
const ToolPath = "/run/polis/bin/polisctl"

// AdapterPath is where it has polis-adapter, if polisd found it.
const AdapterPath = "/run/polis/bin/polis-adapter"
