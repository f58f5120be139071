// BridgeStan's C interface, as far as the tests need it, on the headers that httpstan's wheel carries.
// It lets the unmodified bridgestan.StanModel load a program that was compiled without BridgeStan's sources.
// Compiled with -DMODEL_CPP='"model.hpp"' -DBS_MAJOR=… -DBS_MINOR=… -DBS_PATCH=….
#include MODEL_CPP
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/model/log_prob_grad.hpp>
#include <stan/model/log_prob_propto.hpp>
#include <stan/services/util/create_rng.hpp>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, unc_names, names[4];

  std::string joined(const std::vector<std::string>& parts) const {
    std::string out;
    for (size_t i = 0; i < parts.size(); ++i) out += (i ? "," : "") + parts[i];
    return out;
  }
};

template <typename F>
int guarded(char** error, F&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    if (error) *error = strdup(e.what());
  } catch (...) {
    if (error) *error = strdup("unknown exception");
  }
  return -1;
}

template <bool propto, bool jacobian>
double gradient(const Model* m, std::vector<double>& x, std::vector<double>& g) {
  std::vector<int> none;
  return stan::model::log_prob_grad<propto, jacobian>(*m->model, x, none, g, nullptr);
}

double gradient(const Model* m, bool propto, bool jacobian, std::vector<double>& x, std::vector<double>& g) {
  if (propto) return jacobian ? gradient<true, true>(m, x, g) : gradient<true, false>(m, x, g);
  return jacobian ? gradient<false, true>(m, x, g) : gradient<false, false>(m, x, g);
}

}  // namespace

extern "C" {

int bs_major_version = BS_MAJOR, bs_minor_version = BS_MINOR, bs_patch_version = BS_PATCH;

Model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  Model* m = new Model();
  int failed = guarded(error, [&] {
    std::unique_ptr<stan::io::var_context> context(new stan::io::empty_var_context());
    if (data && std::strlen(data)) {
      std::istringstream in{std::string(data)};
      context.reset(new stan::json::json_data(in));
    }
    m->model.reset(&new_model(*context, seed, &std::cerr));
    m->name = m->model->model_name();
    std::vector<std::string> parts;
    m->model->unconstrained_param_names(parts, false, false);
    m->unc_names = m->joined(parts);
    for (int k = 0; k < 4; ++k) {
      parts.clear();
      m->model->constrained_param_names(parts, k & 1, k & 2);
      m->names[k] = m->joined(parts);
    }
  });
  if (failed) {
    delete m;
    return nullptr;
  }
  return m;
}

void bs_model_destruct(Model* m) { delete m; }
void bs_free_error_msg(char* error) { free(error); }
int bs_set_print_callback(void*, char**) { return 0; }
const char* bs_name(const Model* m) { return m->name.c_str(); }
const char* bs_model_info(const Model* m) { return "httpstan headers"; }
const char* bs_param_names(const Model* m, bool tp, bool gq) { return m->names[tp + 2 * gq].c_str(); }
const char* bs_param_unc_names(const Model* m) { return m->unc_names.c_str(); }
int bs_param_unc_num(const Model* m) { return m->model->num_params_r(); }

int bs_param_num(const Model* m, bool tp, bool gq) {
  std::vector<std::string> parts;
  m->model->constrained_param_names(parts, tp, gq);
  return parts.size();
}

int bs_param_constrain(const Model* m, bool tp, bool gq, const double* unc, double* out, void*, char** error) {
  return guarded(error, [&] {
    auto rng = stan::services::util::create_rng(1, 1);
    Eigen::VectorXd x = Eigen::VectorXd::Map(unc, m->model->num_params_r()), values;
    m->model->write_array(rng, x, values, tp, gq, nullptr);
    Eigen::VectorXd::Map(out, values.size()) = values;
  });
}

int bs_param_unconstrain(const Model* m, const double* constrained, double* out, char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd values = Eigen::VectorXd::Map(constrained, bs_param_num(m, false, false)), x;
    m->model->unconstrain_array(values, x, nullptr);
    Eigen::VectorXd::Map(out, x.size()) = x;
  });
}

int bs_log_density_gradient(const Model* m, bool propto, bool jacobian, const double* unc, double* value, double* out, char** error) {
  return guarded(error, [&] {
    std::vector<double> x(unc, unc + m->model->num_params_r()), g;
    *value = gradient(m, propto, jacobian, x, g);
    std::copy(g.begin(), g.end(), out);
  });
}

int bs_log_density(const Model* m, bool propto, bool jacobian, const double* unc, double* value, char** error) {
  return guarded(error, [&] {
    std::vector<double> x(unc, unc + m->model->num_params_r()), g;
    *value = gradient(m, propto, jacobian, x, g);
  });
}

// Names that bridgestan.StanModel looks up when it loads a library; the tests call none of them.
static int absent(char** error) {
  if (error) *error = strdup("not part of the test shim");
  return -1;
}
int bs_param_unconstrain_json(const Model*, const char*, double*, char** error) { return absent(error); }
int bs_param_initialize(const Model*, const char*, void*, double, int, bool, double*, char** error) { return absent(error); }
int bs_log_density_hessian(const Model*, bool, bool, const double*, double*, double*, double*, char** error) { return absent(error); }
int bs_log_density_hessian_vector_product(const Model*, bool, bool, const double*, const double*, double*, double*, char** error) {
  return absent(error);
}
void* bs_rng_construct(unsigned int, char**) { return new int(0); }
void bs_rng_destruct(void* rng) { delete static_cast<int*>(rng); }

}  // extern "C"
