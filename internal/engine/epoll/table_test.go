//go:build linux && (amd64 || arm64)

package epoll

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTableFindsWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all table
		if p := all.find(5); p.chunk != nil {
			t.Error("an empty table has a chunk")
		}
		fds := []int{0, 5, chunkSize - 1, chunkSize, 40 * chunkSize}
		for _, fd := range fds {
			p := all.open(fd)
			p.slot().open(uint32(fd+1), 0)
			if all.find(fd) != p {
				t.Errorf("%d is not where it was opened", fd)
			}
		}
		if p := all.find(7 * chunkSize); p.chunk != nil {
			t.Error("there is a chunk without connections")
		}
		var seen []int
		all.each(func(fd int, p place) {
			seen = append(seen, fd)
			if generation(p.slot().word.Load()) != uint32(fd+1) {
				t.Errorf("%d has the slot of another one", fd)
			}
		})
		if !slices.Equal(seen, fds) {
			t.Errorf("each visits %v, want %v", seen, fds)
		}
		for _, fd := range fds {
			p := all.find(fd)
			p.slot().close()
			all.close(fd, p)
		}
		again := all.open(5) // its chunk stays
		time.Sleep(chunkPatience + time.Second)
		synctest.Wait()
		if all.find(5) != again || all.find(chunkSize).chunk != nil || all.find(40*chunkSize).chunk != nil {
			t.Error("the wrong chunks were freed")
		}
	})
}
