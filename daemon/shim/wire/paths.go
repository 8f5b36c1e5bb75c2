package wire

// ToolPath is where the sandbox has polisctl, if polisd found it.
const ToolPath = "/run/polis/bin/polisctl"
