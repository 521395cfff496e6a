package shared

import "fmt"

// A Flag is on or off for all processes. A new one is off.
//
// Crash rule: a crash does not change it.
type Flag struct{ state *word }

// Flag returns the flag of that name. Errors: [ErrName], [ErrFull],
// [ErrMismatch], [ErrBusy].
func (s *Segment) Flag(name string) (*Flag, error) {
	words, err := s.open(name, kindFlag, parameters{}, lineWords)
	if err != nil {
		return nil, err
	}
	return &Flag{&words[0]}, nil
}

// IsOn reports whether the flag is on. It costs one atomic load.
func (f *Flag) IsOn() bool { return f.state.Load() != 0 }

// Set switches the flag on or off.
func (f *Flag) Set(isOn bool) {
	if isOn {
		f.state.Store(1)
	} else {
		f.state.Store(0)
	}
}

// A config has a lock, a version, and two buffers. Store writes version+1 to the
// buffer that does not hold the current version.
const (
	configLock    = 0
	configVersion = lineWords
	configBuffers = 2 * lineWords

	configMaxSize = 1 << 28
)

// A Config is a piece of data that is replaced as a whole, for example settings in
// JSON or a list of blocked addresses. A reader always gets one complete version.
//
// Crash rule: a crash does not change it. If a process dies during Store, no
// reader sees the new data.
type Config struct {
	segment *Segment
	words   []word
	buffer  int // words of each buffer: the length and the data
	max     int
}

// Config returns the config of that name. It takes twice maxSize bytes in the
// segment, for two versions. A new config is empty and has version 0. Errors:
// [ErrOption], [ErrName], [ErrFull], [ErrMismatch], [ErrBusy].
func (s *Segment) Config(name string, maxSize int) (*Config, error) {
	if maxSize < 1 || maxSize > configMaxSize {
		return nil, fmt.Errorf("%w: config %q of %d bytes", ErrOption, name, maxSize)
	}
	return s.openConfig(name, kindConfig, maxSize)
}

func (s *Segment) openConfig(name string, k kind, maxSize int) (*Config, error) {
	buffer := linesFor(1 + wordsFor(maxSize))
	words, err := s.open(name, k, parameters{uint64(maxSize)}, configBuffers+2*buffer)
	if err != nil {
		return nil, err
	}
	return &Config{s, words, buffer, maxSize}, nil
}

// Version returns how often data was stored. It costs one atomic load, so a
// program can keep what it has parsed and compare the version at each use.
func (c *Config) Version() uint64 { return c.words[configVersion].Load() }

// Load appends the data to dst and returns it with its version.
func (c *Config) Load(dst []byte) (data []byte, version uint64) {
	for {
		version = c.Version()
		buffer := c.bufferOf(version)
		length := buffer[0].Load()
		if length <= uint64(c.max) {
			data = appendBytes(dst, buffer[1:], int(length))
		}
		// While the version is the same, no process writes to its buffer.
		if c.Version() != version {
			continue
		}
		if length > uint64(c.max) {
			return dst, version // damaged
		}
		return data, version
	}
}

// Store replaces the data, for all processes at once. It copies data. Errors:
// [ErrTooLarge], [ErrBusy]; then the data is unchanged.
func (c *Config) Store(data []byte) error {
	return c.change(func() ([]byte, bool) { return data, true })
}

// change stores the data that f returns if isNew is true. It holds the lock while
// it calls f.
func (c *Config) change(f func() (data []byte, isNew bool)) error {
	lock := &c.words[configLock]
	if _, isLocked := c.segment.lock(lock); !isLocked {
		return ErrBusy
	}
	defer c.segment.unlock(lock)
	data, isNew := f()
	if !isNew {
		return nil
	}
	if len(data) > c.max {
		return ErrTooLarge
	}
	version := c.Version()
	buffer := c.bufferOf(version + 1)
	buffer[0].Store(uint64(len(data)))
	putBytes(buffer[1:], data)
	c.words[configVersion].Store(version + 1)
	return nil
}

func (c *Config) bufferOf(version uint64) []word {
	from := configBuffers + int(version&1)*c.buffer
	return c.words[from : from+c.buffer]
}
