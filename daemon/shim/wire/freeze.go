package wire

import "polis/daemon/setting"

// FreezeRequest freezes the sandbox's processes: POST /v1/freeze, since [FreezeVersion]. It fails,
// and freezes nothing, if the shim is of another generation, if the sandbox is frozen already, or if
// the processes cannot all be frozen in time.
type FreezeRequest struct {
	Generation uint64 `json:"generation"`
	By         string `json:"by"`
	Reason     string `json:"reason,omitempty"`
	// For is when the freeze ends by itself, so that the agent does not stay frozen if polisd dies.
	For setting.Duration `json:"for"`
}

// ThawRequest ends a freeze: POST /v1/thaw, since [FreezeVersion]. By, if given, must be who froze.
type ThawRequest struct {
	By string `json:"by,omitempty"`
}
