package backing

import (
	"os"
	"strconv"
)

// ProcessStatus reads what proc_pid_status(5) describes.
func ProcessStatus(pid uint32) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
}
