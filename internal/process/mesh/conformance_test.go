package mesh

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/backplane/backplanetest"
)

// What every Backplane promises, with and without sets of interests.
func TestConformance(t *testing.T) {
	for name, isFiltered := range map[string]bool{"all": false, "interests": true} {
		t.Run(name, func(t *testing.T) {
			backplanetest.Test(t, func(t *testing.T, n int) (planes []backplane.Backplane) {
				var m master
				var b board
				for i := range n {
					mesh := &Mesh{}
					o := Options{Slot: i, Generation: 1, Meet: m.meet}
					if isFiltered {
						o.Interests = func() Interests { return b.enter() }
					}
					do(t, mesh.Start(o))
					planes = append(planes, mesh.Plane("p"))
					t.Cleanup(func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						defer cancel()
						mesh.Close(ctx)
					})
				}
				return planes
			})
		})
	}
}
