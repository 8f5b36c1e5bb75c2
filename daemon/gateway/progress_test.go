package gateway

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines records when a deadline was set, and which.
type deadlines struct {
	*httptest.ResponseRecorder
	writes []time.Time
}

// SetWriteDeadline is for http.ResponseController.
func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.writes = append(d.writes, t)
	return nil
}

func TestAnAnswerHasItsTimeAtEachWriteAndFewDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w := newProgressWriter(d)
		for range 600 {
			_, err := w.Write([]byte("token"))
			require.NoError(t, err)
			require.NoError(t, w.FlushError())
			require.GreaterOrEqual(t, time.Until(d.writes[len(d.writes)-1]), writeTime)
			time.Sleep(time.Second)
		}
		require.Len(t, d.writes, 40)
		w.end(false)
		require.Equal(t, time.Now().Add(writeTime), d.writes[len(d.writes)-1])
	})
}

func TestSilenceEndsAnAnswerAndPartsOfItDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended atomic.Int64 // the time after began
		s := newSilenceTimer(20*time.Minute, func() { ended.Store(int64(time.Since(began))) })
		time.Sleep(19 * time.Minute)
		s.bound(10 * time.Minute)
		for range 30 {
			time.Sleep(9 * time.Minute)
			s.heard()
		}
		time.Sleep(10*time.Minute - 1)
		synctest.Wait()
		require.Zero(t, ended.Load())
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		require.Equal(t, (19+30*9+10)*time.Minute, time.Duration(ended.Load()))

		ended.Store(0)
		s = newSilenceTimer(time.Minute, func() { ended.Store(1) })
		s.stop()
		time.Sleep(time.Hour)
		require.Zero(t, ended.Load())
	})
}
