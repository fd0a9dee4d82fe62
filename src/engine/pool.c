/* Pools of reusable memory: tasks, arrays of accesses, variables. The engine frees them at its
 * end. */
#include "engine/engine_priv.h"

#include <string.h>

enum { SLAB_TASKS = 32, SLAB_VARS = 32, KEEP_TASKS = 128, BATCH_TASKS = 64 };

struct task_slab {
    void *next;
    _Alignas(GY_CACHE_LINE) gy_done tasks[SLAB_TASKS];
};

struct gy_var_slab {
    struct gy_var_slab *next;
    _Alignas(GY_CACHE_LINE) struct {
        _Alignas(GY_CACHE_LINE) gy_var var;
    } vars[SLAB_VARS];
};

static bool add_task_slab(gy_engine_pool *pool)
{
    GY_ASSERT(pool->tasks == NULL);
    struct task_slab *slab = gy_alloc_zero("engine.tasks", 1, sizeof(*slab));
    if (slab == NULL) {
        return false;
    }
    slab->next = pool->slabs;
    pool->slabs = (void **)slab;
    for (int i = SLAB_TASKS - 1; i >= 0; i--) {
        slab->tasks[i].next = pool->tasks;
        pool->tasks = &slab->tasks[i];
    }
    return true;
}

/* Take up to `count` tasks from the shared pool as a list; NULL when out of memory. */
static gy_done *take_tasks(gy_engine_pool *pool, int count, int *taken)
{
    GY_CHECK_DEEP(count > 0);
    gy_spin_lock(&pool->lock);
    gy_done *first = NULL;
    if (pool->tasks != NULL || add_task_slab(pool)) {
        first = pool->tasks;
        gy_done *last = first;
        int n = 1;
        while (n < count && last->next != NULL) {
            last = last->next;
            n++;
        }
        pool->tasks = last->next;
        last->next = NULL;
        GY_CHECK_DEEP(n <= count);
        *taken = n;
    }
    gy_spin_unlock(&pool->lock);
    return first;
}

static gy_access *take_accesses(gy_engine *engine, int class)
{
    GY_ASSERT(class > 0);
    GY_ASSERT(class < ACCESS_CLASSES);
    gy_engine_pool *pool = &engine->pool;
    gy_spin_lock(&pool->lock);
    gy_access *array = pool->accesses[class];
    if (array != NULL) {
        pool->accesses[class] = array->next;
    }
    gy_spin_unlock(&pool->lock);
    return array != NULL ? array
                         : gy_alloc("engine.accesses", sizeof(*array) * ((size_t)2 << class));
}

gy_done *gy_engine_task_new(gy_engine *engine, gy_worker *self, size_t access_count)
{
    GY_CHECK_DEEP(access_count <= ACCESSES_MAX);
    GY_CHECK_DEEP(self == NULL || (self->free == NULL) == (self->free_count == 0));
    gy_done *task = self != NULL ? self->free : NULL;
    if (task == NULL) {
        int taken = 0;
        task = take_tasks(&engine->pool, self != NULL ? BATCH_TASKS : 1, &taken);
        if (task == NULL) {
            return NULL;
        }
        if (self != NULL) {
            self->free_count = taken;
        }
    }
    if (self != NULL) {
        self->free = task->next;
        self->free_count--;
    }
    task->access_class = 0;
    task->accesses = task->inline_accesses;
    if (access_count > INLINE_ACCESSES) {
        int class = 1;
        while (((size_t)2 << class) < access_count) {
            class ++;
        }
        task->accesses = class < ACCESS_CLASSES ? take_accesses(engine, class) : NULL;
        if (task->accesses == NULL) {
            task->accesses = task->inline_accesses;
            gy_engine_task_free(engine, self, task);
            return NULL;
        }
        task->access_class = (uint8_t) class;
    }
    return task;
}

void gy_engine_task_free(gy_engine *engine, gy_worker *self, gy_done *task)
{
    GY_CHECK_DEEP(task->access_class < ACCESS_CLASSES);
    GY_CHECK_DEEP((task->access_class == 0) == (task->accesses == task->inline_accesses));
    gy_engine_pool *pool = &engine->pool;
    if (task->access_class != 0) {
        gy_spin_lock(&pool->lock);
        task->accesses->next = pool->accesses[task->access_class];
        pool->accesses[task->access_class] = task->accesses;
        gy_spin_unlock(&pool->lock);
    }
    if (self == NULL) {
        gy_spin_lock(&pool->lock);
        task->next = pool->tasks;
        pool->tasks = task;
        gy_spin_unlock(&pool->lock);
        return;
    }
    task->next = self->free;
    self->free = task;
    if (++self->free_count < KEEP_TASKS) {
        return;
    }
    /* When one worker pushes and another one ends the tasks, free tasks pile up at the second:
     * return a batch under one lock. */
    gy_done *last = self->free;
    for (int i = 1; i < BATCH_TASKS; i++) {
        last = last->next;
    }
    gy_done *first = self->free;
    self->free = last->next;
    self->free_count -= BATCH_TASKS;
    GY_CHECK_DEEP(self->free != NULL);
    GY_CHECK_DEEP(self->free_count > 0);
    gy_spin_lock(&pool->lock);
    last->next = pool->tasks;
    pool->tasks = first;
    gy_spin_unlock(&pool->lock);
}

gy_var *gy_engine_pool_var(gy_engine *engine)
{
    gy_engine_pool *pool = &engine->pool;
    gy_spin_lock(&pool->lock);
    if (pool->vars == NULL) {
        struct gy_var_slab *slab = gy_alloc_zero("engine.vars", 1, sizeof(*slab));
        if (slab != NULL) {
            slab->next = pool->var_slabs;
            pool->var_slabs = slab;
            for (int i = SLAB_VARS - 1; i >= 0; i--) {
                slab->vars[i].var.next = pool->vars;
                pool->vars = &slab->vars[i].var;
            }
        }
    }
    gy_var *var = pool->vars;
    if (var != NULL) {
        GY_ASSERT(var->head == NULL);
        GY_ASSERT(var->active == 0);
        GY_ASSERT(var->failure == NULL);
        pool->vars = var->next;
    }
    gy_spin_unlock(&pool->lock);
    return var;
}

void gy_engine_pool_return_var(gy_engine *engine, gy_var *var)
{
    GY_ASSERT(var->engine == engine);
    GY_ASSERT(var->head == NULL);
    GY_ASSERT(var->active == 0);
    gy_failure_drop(var->failure);
    var->failure = NULL;
    gy_engine_pool *pool = &engine->pool;
    gy_spin_lock(&pool->lock);
    var->next = pool->vars;
    pool->vars = var;
    gy_spin_unlock(&pool->lock);
}

void gy_engine_pool_fini(gy_engine *engine)
{
    gy_engine_pool *pool = &engine->pool;
    while (pool->slabs != NULL) {
        struct task_slab *slab = (struct task_slab *)(void *)pool->slabs;
        pool->slabs = slab->next;
        gy_free(slab);
    }
    for (int class = 0; class < ACCESS_CLASSES; class ++) {
        while (pool->accesses[class] != NULL) {
            gy_access *next = pool->accesses[class]->next;
            gy_free(pool->accesses[class]);
            pool->accesses[class] = next;
        }
    }
    while (pool->var_slabs != NULL) {
        struct gy_var_slab *slab = pool->var_slabs;
        pool->var_slabs = slab->next;
        for (int i = 0; i < SLAB_VARS; i++) {
            gy_failure_drop(slab->vars[i].var.failure);
        }
        gy_free(slab);
    }
}
