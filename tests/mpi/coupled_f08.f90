! As coupled.f90, by the entries of the module mpi_f08, which are others again, with handles of
! types of their own.
program coupled_f08
  use mpi_f08
  implicit none
  integer :: e, r, p, s, later, mine, i, want, b(8)
  type(mpi_request) :: request
  type(mpi_comm) :: other
  type(mpi_status) :: status
  real :: number
  double precision :: part, parts(16)
  logical :: truth, all_true
  call mpi_init(e)
  call mpi_comm_rank(mpi_comm_world, r, e)
  call mpi_comm_size(mpi_comm_world, p, e)
  b = 0
  if (r == 0) b = 7
  mine = r
  number = real(r)
  truth = .true.
  part = r
  want = p * (p - 1) / 2
  call mpi_bcast(b, 8, mpi_integer, 0, mpi_comm_world, e)
  call mpi_allreduce(mpi_in_place, mine, 1, mpi_integer, mpi_sum, mpi_comm_world, e)
  call mpi_allreduce(mpi_in_place, number, 1, mpi_real, mpi_sum, mpi_comm_world, e)
  call mpi_allreduce(truth, all_true, 1, mpi_logical, mpi_land, mpi_comm_world, e)
  call mpi_allgather(part, 1, mpi_double_precision, parts, 1, mpi_double_precision, &
                     mpi_comm_world, e)
  call mpi_iallreduce(r, later, 1, mpi_integer, mpi_sum, mpi_comm_world, request, e)
  call mpi_wait(request, status, e)
  call mpi_comm_dup(mpi_comm_world, other, e)
  do i = 1, 10
    call mpi_allreduce(r, s, 1, mpi_integer, mpi_sum, other, e)
    call mpi_barrier(other, e)
  end do
  call mpi_comm_free(other, e)
  if (any(b /= 7) .or. mine /= want .or. later /= want .or. s /= want .or. &
      number /= real(want) .or. .not. all_true .or. parts(p) /= p - 1) then
    print *, 'fortran BAD', r, b, mine, later, s, number, all_true, parts(p)
    call mpi_abort(mpi_comm_world, 3, e)
  end if
  print *, 'fortran ok'
  call mpi_allreduce(1, s, 1, mpi_integer, mpi_sum, mpi_comm_world, e)
  call mpi_finalize(e)
end program
