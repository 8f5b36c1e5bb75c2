package wire

import "polis/daemon/api/setting"

// FreezeRequest freezes the processes of the sandbox: POST /v1/freeze, since [FreezeVersion]. It
// fails, and freezes nothing, if the shim is of another generation, if the sandbox is frozen
// already, or if not all processes can be frozen in time.
type FreezeRequest struct {
	Generation uint64 `json:"generation"`
	By         string `json:"by"`
	Reason     string `json:"reason,omitempty"`
	// For is the time after which the freeze ends by itself. It bounds the freeze if polisd dies.
	For setting.Duration `json:"for"`
}

// ThawRequest ends a freeze: POST /v1/thaw, since [FreezeVersion]. By, if given, must be the caller
// of the freeze.
type ThawRequest struct {
	By string `json:"by,omitempty"`
}
