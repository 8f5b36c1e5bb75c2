package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOlderShimGetsWhatItUnderstands(t *testing.T) {
	all := Models{Models: []Model{{Name: "m", Record: true}}, Services: []Service{{Name: "s"}}, RecordBytes: 1}
	for version, want := range map[int]struct {
		services, recorded bool
		reasons            []string
	}{
		Version:             {services: true, recorded: true},
		ServicesVersion - 1: {recorded: true, reasons: []string{"no services"}},
		RecordVersion - 1:   {reasons: []string{"no services", "nothing is recorded"}},
	} {
		got, err := all.Without(version)
		require.Equal(t, want.services, len(got.Services) == 1)
		require.Equal(t, want.recorded, got.Models[0].Record)
		require.Equal(t, len(want.reasons) > 0, err != nil)
		for _, r := range want.reasons {
			require.ErrorContains(t, err, r)
		}
	}
	require.True(t, all.Models[0].Record, "the caller's are not changed")

	all.Services = append(all.Services, Service{Name: "bounded", RequestsPerMinute: 1})
	got, err := all.Without(ServiceRateVersion - 1)
	require.ErrorContains(t, err, "no service bounded", "it would have no limit")
	require.Equal(t, []Service{{Name: "s"}}, got.Services)
	require.Len(t, all.Services, 2)
}
