package base

import "slices"

// Newest returns the ids of the complete bases whose index has at least that many bytes, the last made
// first. A base that must be checked before its next use is not among them.
func (s *Store) Newest(least int64) []string {
	ids, err := s.List()
	if err != nil {
		s.cfg.Log.Warn("base trees not listed", "op", "base", "err", err)
		return nil
	}
	made := map[string]int64{}
	for _, id := range ids {
		if r, err := s.read(id); err == nil && r.IndexBytes >= least && (r.Synced || r.Boot == BootID()) {
			made[id] = r.Made.UnixNano()
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return made[id] == 0 })
	slices.SortFunc(ids, func(a, b string) int { return int(min(1, max(-1, made[b]-made[a]))) })
	return ids
}
