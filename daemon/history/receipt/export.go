package receipt

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"polis/daemon/api"
)

// Export writes every receipt as a line of JSON, with the stored text from which its hash can be
// computed again. The first broken entry ends it with an error.
func (s *Store) Export(ctx context.Context, to io.Writer) error {
	out := bufio.NewWriterSize(to, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	broken, err := s.Each(ctx, All, func(log string, r *Receipt) error {
		x := r.Of(log)
		x.Data, x.Text = nil, string(r.Text)
		return enc.Encode(x)
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("export receipts: %w", err)
	}
	if broken != nil {
		return Broken(s.Workspace, broken)
	}
	return nil
}

// Broken is the error about the first entry that does not match its hash.
func Broken(workspace string, b *api.BrokenReceipt) error {
	log := "the workspace"
	if b.Log != "" {
		log = "agent " + b.Log
	}
	return api.Errorf(api.CodeReceiptsBroken, "receipts of workspace %s, log of %s: entry %d: %s; compare the log with an export from before", workspace, log, b.Seq, b.Why)
}

// Refusal is the error for what must be recorded while receipts cannot be written, if it is to be
// refused then.
func Refusal(fault error, deny bool) error {
	if fault == nil || !deny {
		return nil
	}
	return api.Errorf(api.CodeAuditFull, "receipts cannot be written, and audit_on_full is \"deny\"; make room on the disk of workspaces_dir: %w", fault)
}

// FaultText is the reason of a fault; "" for none.
func FaultText(fault error) string {
	if fault == nil {
		return ""
	}
	return fault.Error()
}

// FaultEvent reports that the receipts of a workspace cannot be written or, with nil, that they can
// again.
func FaultEvent(workspace string, err error) api.Event {
	e := api.Event{Type: api.EventReceipts, Message: "receipts of workspace " + workspace + " are written again", Data: map[string]any{"workspace": workspace}}
	if err != nil {
		e.Code, e.Message = api.CodeAuditFull, fmt.Sprintf("receipts of workspace %s cannot be written: %v", workspace, err)
	}
	return e
}

// CutEvent reports that a crash left an incomplete entry, which was cut.
func CutEvent(workspace, log string, bytes int64) api.Event {
	return api.Event{Type: api.EventReceipts, Agent: log, Message: fmt.Sprintf("an incomplete receipt of workspace %s was cut: polisd ended while it wrote", workspace),
		Data: map[string]any{"workspace": workspace, "cut": bytes}}
}
