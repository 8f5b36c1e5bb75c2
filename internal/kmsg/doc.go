// Package kmsg fails a test during which the kernel wrote a warning to its log. Only tests import it.
package kmsg
