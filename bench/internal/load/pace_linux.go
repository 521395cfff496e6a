package load

import (
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// pace sends requests at their times, on the connections that wait longest. If
// none is free, requests are late, which their latency shows.
func (c *plainClient) pace(begin time.Time, duration time.Duration) error {
	c.idle = slices.Collect(maps.Values(c.conns))
	period, end := time.Second/time.Duration(c.Rate), begin.Add(duration)
	for due := begin; ; {
		now := time.Now()
		if c.over || !now.Before(end) {
			return nil
		}
		for ; !due.After(now) && len(c.idle) > 0 && !c.over; due = due.Add(period) {
			cn := c.idle[0]
			c.idle = append(c.idle[:0], c.idle[1:]...)
			if err := c.send(cn, due); err != nil {
				return err
			}
		}
		next := due
		if len(c.idle) == 0 {
			next = end
		}
		if err := c.await(next); err != nil {
			return err
		}
		if _, err := c.take(0); err != nil {
			return err
		}
	}
}

// await waits until something has come, or for a time: epoll_wait counts in
// milliseconds, which is too coarse.
func (c *plainClient) await(until time.Time) error {
	limit := unix.NsecToTimespec(max(time.Until(until), 0).Nanoseconds())
	_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(c.poller), Events: unix.POLLIN}}, &limit, nil)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
