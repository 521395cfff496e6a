package server_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestMethodsTakeTypesThatProgramsHave: an exported method whose parameter only this module
// can make is of no use outside.
func TestMethodsTakeTypesThatProgramsHave(t *testing.T) {
	for _, v := range []any{&sluice.Server{}, &sluice.RequestCtx{}, &sluice.Request{}, &sluice.Response{}, &sluice.ServerControl{}, &sluice.Client{}, &sluice.HostClient{}, &sluice.PipelineClient{}, &sluice.LBClient{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			for j := range m.Type.NumIn() - 1 {
				if in := m.Type.In(j + 1); strings.Contains(in.PkgPath(), "/internal/") {
					t.Errorf("%s.%s takes a %s", typ, m.Name, in)
				}
			}
		}
	}
}
