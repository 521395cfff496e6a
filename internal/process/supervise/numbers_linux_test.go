package supervise

import (
	"testing"
	"time"
)

// Times that the documentation names, or that others are tuned to.
func TestTimes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct{ got, want time.Duration }{
		"a worker that lived so long is replaced at once": {steadyUptime, 10_000 * ms},
		"the longest pause between deaths":                {longestBackoff, 30_000 * ms},
		"the pause after a failed fork":                   {spawnBackoff, 100 * ms},
		"the longest pause if no other worker serves":     {lastBackoff, 1000 * ms},
		"beyond the grace":                                {killSlack, 400 * ms},
		"after a second SIGTERM":                          {secondGrace, 1000 * ms},
		"without an answer to HELLO":                      {helloPatience, 2000 * ms},
		"for stacks":                                      {dumpTime, 2000 * ms},
		"the shortest time between probes":                {shortestProbe, 50 * ms},
		"the longest time between probes":                 {longestProbe, 5000 * ms},
		"an orphan's time beyond its grace":               {exitSlack, 500 * ms},
		"for an answer to RECYCLE":                        {recyclePatience, 10_000 * ms},
		"for an answer to MEETING":                        {meetPatience, 10_000 * ms},
		"for the last lines of the log":                   {journalPatience, 500 * ms},
		"between two looks at an inbox that is full":      {postInterval, 20 * ms},
		"between two attempts at another limit":           {postPause, ms},
		"before a dead child is reaped":                   {reapPatience, 1000 * ms},
		"between two looks for dead children":             {reapInterval, 250 * ms},
		"between two probes, three in a HangTimeout":      {(&fleet{config: Config{HangTimeout: 3000 * ms}}).probeInterval(), 1000 * ms},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// Limits, and numbers of which processes of different versions know.
func TestNumbers(t *testing.T) {
	for name, c := range map[string]struct{ got, want int }{
		"the first inherited descriptor": {firstInherited, 3},
		"the last one":                   {lastInherited, 255},
		"bytes of a configuration":       {MaxConfiguration, 32768},
		"bytes of a parcel":              {MaxParcel, 61440},
		"bytes of a head":                {headSize, 16},
		"the magic number":               {headMagic, 0x5afe},
		"the version":                    {headVersion, 1},
		"descriptors of a message":       {maxDescriptors, 64},
		"the highest slot":               {maxSlot, 65535},
		"HasSuccessor":                   {flagSuccessor, 1},
		"the last part of an answer":     {flagAnswer, 1},
		"streams are missing":            {flagFailed, 2},
		"lines of the log that wait":     {journalLines, 1024},
		"their bytes":                    {journalBytes, 1 << 20},
		"bytes of an inbox":              {inboxBuffer, 8 << 20},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}
