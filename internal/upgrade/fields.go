package upgrade

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// Values yields the values of those fields whose name is name in any spelling. The methods
// of a header find one spelling only if the server keeps names as they were sent.
func Values(fields iter.Seq2[[]byte, []byte], name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for key, value := range fields {
			if ascii.EqualFold(key, name) && !yield(value) {
				return
			}
		}
	}
}
