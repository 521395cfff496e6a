package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A benchCase is a coding with messages of a size.
type benchCase struct {
	coding
	size     int
	messages [][]byte
	// contenders are those that take part.
	contenders []int

	encoders [contenderCount]encode
	encoded  [contenderCount]int // bytes of all messages
	samples  [contenderCount][]sample
}

// A sample is one contender's turn; all figures are per message.
type sample struct {
	microseconds, allocs, bytes float64
}

func (c *benchCase) name() string {
	return fmt.Sprintf("%s %d, %d KiB", c.coding.name, c.level, c.size>>10)
}

// check makes the contenders, and sees that what each of them makes of each
// message can be decoded.
func (c *benchCase) check() (err error) {
	if c.encoders, err = c.coding.encoders(); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	for _, i := range c.contenders {
		encode := c.encoders[i]
		for _, message := range c.messages {
			out, err := encode(message)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name(), contenderNames[i], err)
			}
			decoded, err := c.decode(nil, out)
			if err != nil || !bytes.Equal(decoded, message) {
				return fmt.Errorf("%s, %s: %d bytes are decoded to %d, not %d: %v", c.name(), contenderNames[i], len(out), len(decoded), len(message), err)
			}
			c.encoded[i] += len(out)
		}
	}
	return nil
}

// plain is the length of all messages.
func (c *benchCase) plain() (sum int) {
	for _, message := range c.messages {
		sum += len(message)
	}
	return sum
}

// round has every contender take its turn, in random order.
func (c *benchCase) round(turn time.Duration) error {
	for _, at := range rand.Perm(len(c.contenders)) {
		i := c.contenders[at]
		s, err := c.turn(c.encoders[i], turn)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name(), contenderNames[i], err)
		}
		c.samples[i] = append(c.samples[i], s)
	}
	return nil
}

// turn encodes all messages over and over.
func (c *benchCase) turn(encode encode, turn time.Duration) (sample, error) {
	// The others' garbage collections have emptied the pools; a steady load
	// keeps them filled.
	if _, err := encode(c.messages[0]); err != nil {
		return sample{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, err := cpuTime()
	if err != nil {
		return sample{}, err
	}
	count, used := 0, time.Duration(0)
	for used < turn {
		for _, message := range c.messages {
			if _, err := encode(message); err != nil {
				return sample{}, err
			}
		}
		count += len(c.messages)
		now, err := cpuTime()
		if err != nil {
			return sample{}, err
		}
		used = now - start
	}
	runtime.ReadMemStats(&after)
	n := float64(count)
	return sample{
		microseconds: float64(used) / float64(time.Microsecond) / n,
		allocs:       float64(after.Mallocs-before.Mallocs) / n,
		bytes:        float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, nil
}

// cpuTime is what all threads of this process have used.
func cpuTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("the process's CPU time: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
