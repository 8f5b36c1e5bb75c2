package netbridge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacyTable is what the table "filter" of iptables-legacy has. Unlike the tables of nftables, the kernel reports
// neither its changes nor the way of a packet through it.
type legacyTable struct {
	exists       bool
	forwardDrops bool     // the policy of its chain FORWARD
	chains       []string // those that users made
}

// Of linux/netfilter_ipv4/ip_tables.h and linux/netfilter/x_tables.h.
const (
	iptSoGetInfo    = 64
	iptSoGetEntries = 65
	xtTableNameLen  = 32

	iptGetinfoSize   = 84
	iptEntriesOffset = 40  // of entrytable in struct ipt_get_entries
	iptEntrySize     = 112 // struct ipt_entry without matches
	iptTargetOffset  = 88  // of target_offset in struct ipt_entry
	iptNextOffset    = 90
	xtTargetName     = 2 // in struct xt_entry_target
	xtTargetNameLen  = 29
	xtTargetData     = 32

	// maxLegacy bounds the table that is read, in bytes.
	maxLegacy = 64 << 20
)

// HasLegacy reports whether the kernel has that table.
func HasLegacy() bool {
	names, err := os.ReadFile(legacyNames)
	return err == nil && slices.Contains(strings.Fields(string(names)), "filter")
}

const legacyNames = "/proc/thread-self/net/ip_tables_names"

// readLegacy reads the table if the kernel has it. A query would make an empty one.
func readLegacy() (t legacyTable, err error) {
	if !HasLegacy() {
		return t, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return t, fmt.Errorf("read the rules of iptables-legacy: %w", os.NewSyscallError("socket", err))
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	info := make([]byte, iptGetinfoSize)
	copy(info, "filter")
	if err := getsockopt(fd, iptSoGetInfo, info); err != nil {
		return t, fmt.Errorf("read the rules of iptables-legacy: %w", err)
	}
	underflow := binary.NativeEndian.Uint32(info[xtTableNameLen+4+5*4+unix.NF_INET_FORWARD*4:])
	size := binary.NativeEndian.Uint32(info[80:])
	if size > maxLegacy {
		return t, fmt.Errorf("read the rules of iptables-legacy: %d bytes are too many", size)
	}
	table := make([]byte, iptEntriesOffset+int(size))
	copy(table, "filter")
	binary.NativeEndian.PutUint32(table[xtTableNameLen:], size)
	if err := getsockopt(fd, iptSoGetEntries, table); err != nil {
		return t, fmt.Errorf("read the rules of iptables-legacy: %w", err)
	}
	return parseLegacy(table[iptEntriesOffset:], int(underflow)), nil
}

func getsockopt(fd, option int, b []byte) error {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return os.NewSyscallError("getsockopt", errno)
	}
	return nil
}

// parseLegacy reads the entries of a table. policy is where that of FORWARD is; it ends at what is malformed.
func parseLegacy(b []byte, policy int) legacyTable {
	t := legacyTable{exists: true}
	for at := 0; at+iptEntrySize <= len(b); {
		target := at + int(binary.NativeEndian.Uint16(b[at+iptTargetOffset:]))
		next := int(binary.NativeEndian.Uint16(b[at+iptNextOffset:]))
		if next < iptEntrySize || target+xtTargetData+4 > len(b) {
			break
		}
		name := b[target+xtTargetName : target+xtTargetName+xtTargetNameLen]
		data := b[target+xtTargetData:]
		switch {
		case bytes.HasPrefix(name, []byte("ERROR\x00")): // the head of a chain, or the end of the table
			if chain := text(data); chain != "ERROR" {
				t.chains = append(t.chains, chain)
			}
		case name[0] == 0 && at == policy: // a standard target
			t.forwardDrops = int32(binary.NativeEndian.Uint32(data)) == -nfDrop-1
		}
		at += next
	}
	return t
}

func text(b []byte) string {
	s, _, _ := bytes.Cut(b[:min(len(b), 30)], []byte{0})
	return string(s)
}
