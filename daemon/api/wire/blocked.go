package wire

// BlockedRequest says that another firewall of the host drops the agent's packets: POST /v1/blocked, since
// [GateVersion]. The shim records it as a refusal.
type BlockedRequest struct {
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}
