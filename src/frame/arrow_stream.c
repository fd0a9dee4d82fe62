/* Sequences of frames through Arrow's C stream interface. */
#include "frame/frame_priv.h"

#include <gyre/arrow.h>

#include <errno.h>
#include <string.h>

/* ---- out ---- */

typedef struct given_stream {
    gy_schema *schema;
    gy_frame_source source;
    gy_error error; /* the last failure */
} given_stream;

static int fail_stream(given_stream *given, gy_status status)
{
    gy_error_take(&given->error, status);
    return status == GY_NOMEM ? ENOMEM : status == GY_ARG ? EINVAL : EIO;
}

static int give_schema(gy_arrow_stream *self, gy_arrow_schema *out)
{
    given_stream *given = self->private_data;
    const gy_status status = gy_schema_to_arrow(given->schema, out);
    return status == GY_OK ? 0 : fail_stream(given, status);
}

static int give_next(gy_arrow_stream *self, gy_arrow_array *out)
{
    given_stream *given = self->private_data;
    gy_frame *frame = NULL;
    gy_status status = given->source.next(given->source.arg, &frame);
    if (status == GY_DONE) {
        memset(out, 0, sizeof(*out)); /* a released array is the end */
        return 0;
    }
    if (status == GY_OK) {
        status = gy_frame_to_arrow(frame, out);
        gy_frame_drop(frame);
    }
    return status == GY_OK ? 0 : fail_stream(given, status);
}

static const char *give_error(gy_arrow_stream *self)
{
    given_stream *given = self->private_data;
    return given->error.status < 0 ? given->error.text : NULL;
}

static void close_source(const gy_frame_source *source)
{
    if (source->close != NULL) {
        source->close(source->arg);
    }
}

static void release_stream(gy_arrow_stream *self)
{
    given_stream *given = self->private_data;
    close_source(&given->source);
    gy_schema_drop(given->schema);
    gy_free(given);
    self->release = NULL;
}

gy_status gy_frames_to_arrow(gy_schema *schema, const gy_frame_source *source,
                             gy_arrow_stream *out)
{
    given_stream *given = gy_alloc_zero("frame.arrow", 1, sizeof(*given));
    if (given == NULL) {
        close_source(source);
        return GY_NOMEM;
    }
    given->schema = gy_schema_hold(schema);
    given->source = *source;
    *out = (gy_arrow_stream){.get_schema = give_schema,
                             .get_next = give_next,
                             .get_last_error = give_error,
                             .release = release_stream,
                             .private_data = given};
    return GY_OK;
}

/* ---- in ---- */

typedef struct taken_stream {
    gy_schema *schema;
    gy_arrow_stream stream;
} taken_stream;

/* Fail with a stream's own words. */
static gy_status fail_of(gy_arrow_stream *stream, int error)
{
    char words[512];
    const char *text = stream->get_last_error(stream);
    text = text != NULL ? text : "no reason given";
    (void)gy_printable(words, sizeof(words), text, strlen(text), "");
    return gy_fail(error == ENOMEM ? GY_NOMEM : GY_IO, "Arrow: a stream failed (%d): %s", error,
                   words);
}

static gy_status take_next(void *arg, gy_frame **frame)
{
    taken_stream *taken = arg;
    gy_arrow_array array = {.release = NULL};
    const int error = taken->stream.get_next(&taken->stream, &array);
    if (error != 0) {
        return fail_of(&taken->stream, error);
    }
    if (array.release == NULL) {
        return GY_DONE;
    }
    const gy_status status = gy_frame_from_arrow(taken->schema, &array, frame);
    if (status < 0) {
        array.release(&array);
    }
    return status;
}

static void close_taken(void *arg)
{
    taken_stream *taken = arg;
    taken->stream.release(&taken->stream);
    gy_schema_drop(taken->schema);
    gy_free(taken);
}

static gy_status take_schema(gy_arrow_stream *stream, gy_schema **schema)
{
    gy_arrow_schema arrow = {.release = NULL};
    const int error = stream->get_schema(stream, &arrow);
    if (error != 0) {
        return fail_of(stream, error);
    }
    const gy_status status = gy_schema_from_arrow(&arrow, schema);
    if (arrow.release != NULL) {
        arrow.release(&arrow);
    }
    return status;
}

gy_status gy_frames_from_arrow(gy_arrow_stream *stream, gy_schema **schema,
                               gy_frame_source *source)
{
    if (stream->release == NULL) {
        return gy_fail(GY_ARG, "Arrow: a stream that was released");
    }
    gy_schema *found = NULL;
    GY_TRY(take_schema(stream, &found));
    taken_stream *taken = gy_alloc("frame.arrow", sizeof(*taken));
    if (taken == NULL) {
        gy_schema_drop(found);
        return GY_NOMEM;
    }
    *taken = (taken_stream){.schema = found, .stream = *stream};
    stream->release = NULL;
    *schema = gy_schema_hold(found);
    *source = (gy_frame_source){.next = take_next, .close = close_taken, .arg = taken};
    return GY_OK;
}
