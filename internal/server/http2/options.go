package http2

import (
	"cmp"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// Options are those of sluice.HTTP2Config, which converts to them.
type Options struct {
	Disable, DisableWebSocket bool

	MaxConcurrentStreams, HeaderTableSize int
	StreamWindow, ConnWindow              int
	StallTimeout                          time.Duration
}

// The defaults of Options, and of other fields of a Config.
const (
	defaultStreams      = 250
	defaultTableSize    = 4096
	defaultStreamWindow = 1 << 20
	defaultConnWindow   = 16 << 20
	defaultReadTimeout  = 10 * time.Second
	defaultStallTimeout = 30 * time.Second

	firstStreamWindow = 64 << 10
	firstConnWindow   = 1 << 20
	largestWindow     = 1<<31 - 1
)

// NewConfig completes a Config, which may have all fields that do not depend on o. The zero
// value of a time-out means its default; StallTimeout is replaced by that of o.
func NewConfig(o Options, c Config) *Config {
	c.MaxStreamWindow = clampTo(o.StreamWindow, defaultStreamWindow, largestWindow)
	c.MaxConnWindow = clampTo(o.ConnWindow, defaultConnWindow, largestWindow)
	c.ConnWindow = min(firstConnWindow, c.MaxConnWindow)
	c.ReadTimeout = cmp.Or(max(c.ReadTimeout, 0), defaultReadTimeout)
	c.StallTimeout = cmp.Or(max(o.StallTimeout, 0), max(c.StallTimeout, 0), defaultStallTimeout)
	c.Records, c.Pairs = &Records{}, &h2.Pairs{}
	c.Settings = h2.DefaultSettings()
	c.Settings.MaxConcurrentStreams = clampTo(o.MaxConcurrentStreams, defaultStreams, h2.MaxStream)
	c.Settings.HeaderTableSize = clampTo(o.HeaderTableSize, defaultTableSize, h2.MaxTableSize)
	c.Settings.InitialWindowSize = min(firstStreamWindow, c.MaxStreamWindow)
	c.Settings.MaxHeaderListSize = uint32(c.Limits.MaxHead)
	c.Settings.NoRFC7540Priorities = true
	c.Settings.EnableConnectProtocol = !o.DisableWebSocket
	return &c
}

// clampTo returns n within its limits, and fallback for 0 and less.
func clampTo(n, fallback, most int) uint32 {
	if n <= 0 {
		n = fallback
	}
	return uint32(min(n, most))
}
