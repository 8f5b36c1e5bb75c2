package authorship

// follow returns the index in older that a line of newer has come from; -1 if older does not have it. Lines that both
// begin and end with are the same ones. In between, the first of equal lines of newer is the first of older, and so
// on: a line that was moved is found, and of equal lines one can be taken for another.
func follow(newer, older []string, at int) int {
	first := 0
	for first < len(newer) && first < len(older) && newer[first] == older[first] {
		first++
	}
	if at < first {
		return at
	}
	last := 0
	for last < len(newer)-first && last < len(older)-first && newer[len(newer)-1-last] == older[len(older)-1-last] {
		last++
	}
	if back := len(newer) - at; back <= last {
		return len(older) - back
	}
	rank := 0
	for _, text := range newer[first:at] {
		if text == newer[at] {
			rank++
		}
	}
	found := -1
	for i, text := range older[first : len(older)-last] {
		if text == newer[at] {
			found = first + i
			if rank--; rank < 0 {
				break
			}
		}
	}
	if rank >= 0 {
		return -1 // older has fewer of them: this one is new
	}
	return found
}
