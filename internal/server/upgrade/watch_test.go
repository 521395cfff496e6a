package upgrade

import (
	"context"
	"testing"
)

func TestWatched(t *testing.T) {
	if Watched(context.Background()) != nil {
		t.Error("there is a Watcher")
	}
	isCalled := false
	w := &Watcher{Ended: func(error) { isCalled = true }}
	Watched(context.WithValue(context.Background(), WatchKey{}, w))(nil)
	if !w.Expected || !isCalled {
		t.Errorf("%+v", w)
	}
}
